//! Keys whose prefix identifies the issuer (a table).

use super::mask::{Mask, SecretMatch};

/// The characters that may follow a prefix.
#[derive(Clone, Copy)]
enum KeyBody {
    /// Letters and digits.
    Alphanumeric,
    /// Letters, digits and underscores.
    Word,
    /// Letters, digits, underscores and dashes.
    Token,
    /// The same with at least one digit, for prefixes that could also begin an identifier.
    Mixed,
    /// Sixteen capital letters and digits.
    Sixteen,
}

const KEYS: &[(&str, KeyBody, usize)] = &[
    ("sk-", KeyBody::Token, 10),
    ("pplx-", KeyBody::Token, 10),
    ("fc-", KeyBody::Token, 10),
    ("xai-", KeyBody::Token, 10),
    ("fw-", KeyBody::Token, 10),
    ("nvapi-", KeyBody::Token, 10),
    ("tvly-", KeyBody::Token, 10),
    ("hsk-", KeyBody::Token, 10),
    ("fal_", KeyBody::Token, 10),
    ("am_", KeyBody::Token, 10),
    ("retaindb_", KeyBody::Token, 10),
    ("mem0_", KeyBody::Token, 10),
    ("brv_", KeyBody::Token, 10),
    ("csk-", KeyBody::Token, 10),
    ("ops_", KeyBody::Mixed, 10),
    ("sk_", KeyBody::Alphanumeric, 16),
    ("re_", KeyBody::Alphanumeric, 16),
    ("gsk_", KeyBody::Alphanumeric, 10),
    ("exa_", KeyBody::Alphanumeric, 10),
    ("hf_", KeyBody::Alphanumeric, 10),
    ("r8_", KeyBody::Alphanumeric, 10),
    ("fw_", KeyBody::Alphanumeric, 10),
    ("fpk_", KeyBody::Alphanumeric, 10),
    ("api_org_", KeyBody::Alphanumeric, 10),
    ("e2b_", KeyBody::Alphanumeric, 10),
    ("dtn_", KeyBody::Alphanumeric, 10),
    ("wandb_v1_", KeyBody::Alphanumeric, 10),
    ("pcsk_", KeyBody::Mixed, 10),
    ("tgp_v1_", KeyBody::Mixed, 10),
    ("lsv2_pt_", KeyBody::Mixed, 10),
    ("lsv2_sk_", KeyBody::Mixed, 10),
    ("sk-lf-", KeyBody::Token, 10),
    ("bb_live_", KeyBody::Token, 10),
    ("bb_test_", KeyBody::Mixed, 10),
    ("sk_live_", KeyBody::Alphanumeric, 10),
    ("sk_test_", KeyBody::Alphanumeric, 10),
    ("rk_live_", KeyBody::Alphanumeric, 10),
    ("rk_test_", KeyBody::Alphanumeric, 10),
    ("whsec_", KeyBody::Mixed, 10),
    ("rzp_live_", KeyBody::Mixed, 10),
    ("rzp_test_", KeyBody::Mixed, 10),
    ("sq0atp-", KeyBody::Token, 10),
    ("sq0csp-", KeyBody::Token, 10),
    ("FLWSECK-", KeyBody::Token, 10),
    ("FLWSECK_TEST-", KeyBody::Token, 10),
    ("access-sandbox-", KeyBody::Token, 10),
    ("access-production-", KeyBody::Token, 10),
    ("shippo_live_", KeyBody::Mixed, 10),
    ("shippo_test_", KeyBody::Mixed, 10),
    ("duffel_live_", KeyBody::Mixed, 10),
    ("duffel_test_", KeyBody::Mixed, 10),
    ("live_sk_", KeyBody::Mixed, 10),
    ("test_sk_", KeyBody::Mixed, 10),
    ("ghp_", KeyBody::Alphanumeric, 10),
    ("gho_", KeyBody::Alphanumeric, 10),
    ("ghu_", KeyBody::Alphanumeric, 10),
    ("ghs_", KeyBody::Alphanumeric, 10),
    ("ghr_", KeyBody::Alphanumeric, 10),
    ("github_pat_", KeyBody::Word, 10),
    ("glpat-", KeyBody::Token, 10),
    ("gldt-", KeyBody::Token, 10),
    ("glrt-", KeyBody::Token, 10),
    ("glcbt-", KeyBody::Token, 10),
    ("glptt-", KeyBody::Token, 10),
    ("glft-", KeyBody::Token, 10),
    ("glimt-", KeyBody::Token, 10),
    ("glagent-", KeyBody::Token, 10),
    ("gloas-", KeyBody::Token, 10),
    ("glsoat-", KeyBody::Token, 10),
    ("glffct-", KeyBody::Token, 10),
    ("ATATT3", KeyBody::Token, 10),
    ("ATCTT3", KeyBody::Token, 10),
    ("bkua_", KeyBody::Mixed, 10),
    ("CCIPAT_", KeyBody::Mixed, 10),
    ("CCIPRJ_", KeyBody::Mixed, 10),
    ("sgp_", KeyBody::Mixed, 10),
    ("sntrys_", KeyBody::Mixed, 10),
    ("sntryu_", KeyBody::Mixed, 10),
    ("squ_", KeyBody::Mixed, 10),
    ("sqp_", KeyBody::Mixed, 10),
    ("sqa_", KeyBody::Mixed, 10),
    ("xoxa-", KeyBody::Token, 10),
    ("xoxb-", KeyBody::Token, 10),
    ("xoxp-", KeyBody::Token, 10),
    ("xoxr-", KeyBody::Token, 10),
    ("xoxs-", KeyBody::Token, 10),
    ("xoxe-", KeyBody::Token, 10),
    ("xoxo-", KeyBody::Token, 10),
    ("xoxc-", KeyBody::Token, 10),
    ("xoxd-", KeyBody::Token, 10),
    ("xapp-", KeyBody::Token, 10),
    ("xwfp-", KeyBody::Token, 10),
    ("syt_", KeyBody::Word, 10),
    ("mct_", KeyBody::Mixed, 10),
    ("mat_", KeyBody::Mixed, 10),
    ("mcr_", KeyBody::Mixed, 10),
    ("AIza", KeyBody::Token, 30),
    ("AKIA", KeyBody::Sixteen, 16),
    ("ASIA", KeyBody::Sixteen, 16),
    ("ABIA", KeyBody::Sixteen, 16),
    ("ACCA", KeyBody::Sixteen, 16),
    ("GOCSPX-", KeyBody::Token, 10),
    ("HRKU-", KeyBody::Token, 10),
    ("dckr_pat_", KeyBody::Mixed, 10),
    ("dckr_oat_", KeyBody::Mixed, 10),
    ("dp_pt_", KeyBody::Mixed, 10),
    ("tskey-auth-", KeyBody::Token, 10),
    ("tskey-api-", KeyBody::Token, 10),
    ("tskey-client-", KeyBody::Token, 10),
    ("tskey-scim-", KeyBody::Token, 10),
    ("ngrok_", KeyBody::Mixed, 10),
    ("nfp_", KeyBody::Mixed, 10),
    ("rnd_", KeyBody::Mixed, 10),
    ("vercel_blob_rw_", KeyBody::Mixed, 10),
    ("vcp_", KeyBody::Mixed, 10),
    ("sbp_", KeyBody::Mixed, 10),
    ("sb_secret_", KeyBody::Mixed, 10),
    ("napi_", KeyBody::Mixed, 10),
    ("pscale_tkn_", KeyBody::Mixed, 10),
    ("pscale_oauth_", KeyBody::Mixed, 10),
    ("pscale_pw_", KeyBody::Mixed, 10),
    ("mdb_sa_sk_", KeyBody::Mixed, 10),
    ("CCDB1_", KeyBody::Mixed, 10),
    ("PMAK-", KeyBody::Token, 10),
    ("NRAK-", KeyBody::Token, 10),
    ("NRJS-", KeyBody::Token, 10),
    ("NRII-", KeyBody::Token, 10),
    ("NRRA-", KeyBody::Token, 10),
    ("glc_", KeyBody::Mixed, 10),
    ("glsa_", KeyBody::Mixed, 10),
    ("phx_", KeyBody::Mixed, 10),
    ("phs_", KeyBody::Mixed, 10),
    ("ddp_", KeyBody::Mixed, 10),
    ("ddw_", KeyBody::Mixed, 10),
    ("figd_", KeyBody::Mixed, 10),
    ("figo_", KeyBody::Mixed, 10),
    ("figor_", KeyBody::Mixed, 10),
    ("rdme_", KeyBody::Mixed, 10),
    ("tfp_", KeyBody::Mixed, 10),
    ("CFPAT-", KeyBody::Token, 10),
    ("CLOJARS_", KeyBody::Mixed, 10),
    ("rubygems_", KeyBody::Mixed, 10),
    ("npm_", KeyBody::Alphanumeric, 10),
    ("pypi-", KeyBody::Token, 10),
    ("lin_api_", KeyBody::Mixed, 10),
    ("lin_oauth_", KeyBody::Mixed, 10),
    ("ntn_", KeyBody::Mixed, 10),
    ("shpat_", KeyBody::Mixed, 10),
    ("shpca_", KeyBody::Mixed, 10),
    ("shppa_", KeyBody::Mixed, 10),
    ("shpss_", KeyBody::Mixed, 10),
    ("AGE-SECRET-KEY-1", KeyBody::Token, 10),
    ("aio_", KeyBody::Mixed, 10),
    ("pnu_", KeyBody::Mixed, 10),
    ("pnb_", KeyBody::Mixed, 10),
    ("fio-u-", KeyBody::Token, 10),
    ("fo1_", KeyBody::Mixed, 10),
    ("fm2_", KeyBody::Mixed, 10),
    ("bwsm_", KeyBody::Mixed, 10),
    ("doppler_", KeyBody::Mixed, 10),
    ("cfut_", KeyBody::Mixed, 10),
    ("cfat_", KeyBody::Mixed, 10),
    ("tk_live_", KeyBody::Mixed, 10),
    ("dop_v1_", KeyBody::Alphanumeric, 10),
    ("doo_v1_", KeyBody::Alphanumeric, 10),
    ("dor_v1_", KeyBody::Alphanumeric, 10),
    ("LTAI", KeyBody::Alphanumeric, 20),
    ("AKID", KeyBody::Alphanumeric, 20),
    ("EZAK", KeyBody::Alphanumeric, 20),
    ("EZTK", KeyBody::Alphanumeric, 20),
    ("ATBB", KeyBody::Alphanumeric, 20),
    ("AKCp", KeyBody::Alphanumeric, 20),
    ("oy2", KeyBody::Alphanumeric, 20),
    ("dapi", KeyBody::Alphanumeric, 32),
    ("secret_", KeyBody::Alphanumeric, 32),
    ("SK", KeyBody::Alphanumeric, 32),
    ("AQVN", KeyBody::Alphanumeric, 32),
    ("y0_", KeyBody::Alphanumeric, 32),
    ("AVNS_", KeyBody::Mixed, 20),
    ("pul-", KeyBody::Token, 20),
    ("ico-", KeyBody::Token, 20),
    ("gAAAA", KeyBody::Token, 20),
    ("fm1_", KeyBody::Mixed, 20),
];

/// The shortest run that can be a key: a shorter one is skipped without consulting the table.
const SHORTEST: usize = 13;

pub(super) fn known_key(text: &str, from: usize) -> Option<SecretMatch> {
    let bytes = text.as_bytes();
    let mut at = from;
    while at < bytes.len() {
        if !is_token(bytes[at]) {
            at += 1;
            continue;
        }
        let end = run_end(bytes, at);
        let hit = starts(bytes, at, end).find_map(|start| key_at(text, start, end));
        if hit.is_some() {
            return hit;
        }
        at = end;
    }
    None
}

/// Returns the positions in a run where a key may begin: its start, or after an escape (`\n`, `\u003d`, `%3D`) that
/// only looks like part of the run.
fn starts(bytes: &[u8], start: usize, end: usize) -> impl Iterator<Item = usize> {
    let before = start.checked_sub(1).map(|at| bytes[at]);
    let behind_escape = match (before, bytes.get(start)) {
        (Some(b'\\'), Some(b'u')) => Some(start + 5),
        (Some(b'\\'), _) => Some(start + 1),
        (Some(b'%'), _) => Some(start + 2),
        _ => None,
    };
    [Some(start), behind_escape.filter(|at| *at < end)].into_iter().flatten()
}

fn key_at(text: &str, start: usize, end: usize) -> Option<SecretMatch> {
    let run = text.get(start..end)?;
    let hit = |end| Some(SecretMatch { start, end, with: Mask::Token });
    if let Some(end) = dotted_end(text, run, end) {
        return hit(end);
    }
    if run.len() < SHORTEST {
        return None;
    }
    let fits = |(prefix, body, least): &(&str, KeyBody, usize)| {
        run.strip_prefix(prefix).is_some_and(|rest| rest.len() >= *least && body.holds(rest))
    };
    KEYS.iter().any(fits).then_some(())?;
    // Fernet tokens are padded.
    let padding = text.get(end..)?.bytes().take_while(|byte| *byte == b'=').count();
    hit(if run.starts_with("gAAAA") { end + padding } else { end })
}

/// Returns the end of a key of dot-separated parts, each with the least length of the parts after the first.
fn dotted_end(text: &str, run: &str, end: usize) -> Option<usize> {
    let least: &[usize] = match run {
        "SG" => &[10, 0],
        "ya29" | "hvs" | "hvb" | "hvr" | "sl" | "vk1" | "mlsn" => &[10],
        "dp" => &[2, 10],
        "dt0c01" => &[10, 10],
        "sk" | "pk" | "tk" => &[24, 8],
        _ if run.starts_with("eyJ") && run.len() >= 13 => &[4, 0],
        _ if run.starts_with("pat") && run.len() == 17 => &[40],
        _ if run.len() == 14 && text.get(end..).is_some_and(|rest| rest.starts_with(".atlasv1.")) => &[7, 20],
        // Discord: the bot's number in base64, a time, a signature.
        _ if run.starts_with(['M', 'N', 'O']) && (23..=28).contains(&run.len()) => &[6, 27],
        _ => return None,
    };
    let bytes = text.as_bytes();
    let mut at = end;
    for (index, least) in least.iter().enumerate() {
        let part = if bytes.get(at) == Some(&b'.') { run_end(bytes, at + 1) } else { at };
        if part < at + 1 + least {
            return (index > 0 && *least == 0).then_some(at);
        }
        // The full stop of a sentence is not part of a key.
        at = if part == at + 1 { at } else { part };
    }
    Some(at)
}

impl KeyBody {
    fn holds(self, text: &str) -> bool {
        text.bytes().all(|byte| match self {
            Self::Alphanumeric => byte.is_ascii_alphanumeric(),
            Self::Word => byte.is_ascii_alphanumeric() || byte == b'_',
            Self::Token | Self::Mixed => is_token(byte),
            Self::Sixteen => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        }) && (!matches!(self, Self::Sixteen) || text.len() == 16)
            && (!matches!(self, Self::Mixed) || text.bytes().any(|byte| byte.is_ascii_digit()))
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn run_end(bytes: &[u8], start: usize) -> usize {
    let rest = bytes.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|byte| is_token(**byte)).count()
}
