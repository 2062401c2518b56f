//! Keys that show by their first letters who issued them. (Table.)

use super::mask::{Hit, Mask};

/// What may follow a prefix.
#[derive(Clone, Copy)]
enum Body {
    /// Letters and digits.
    Alphanumeric,
    /// Also underscores.
    Word,
    /// Also dashes.
    Token,
    /// The same with a digit among them, where a prefix could also begin a name in a program.
    Mixed,
    /// Sixteen capital letters and digits.
    Sixteen,
}

const KEYS: &[(&str, Body, usize)] = &[
    ("sk-", Body::Token, 10),
    ("pplx-", Body::Token, 10),
    ("fc-", Body::Token, 10),
    ("xai-", Body::Token, 10),
    ("fw-", Body::Token, 10),
    ("nvapi-", Body::Token, 10),
    ("tvly-", Body::Token, 10),
    ("hsk-", Body::Token, 10),
    ("fal_", Body::Token, 10),
    ("am_", Body::Token, 10),
    ("retaindb_", Body::Token, 10),
    ("mem0_", Body::Token, 10),
    ("brv_", Body::Token, 10),
    ("csk-", Body::Token, 10),
    ("ops_", Body::Mixed, 10),
    ("sk_", Body::Alphanumeric, 16),
    ("re_", Body::Alphanumeric, 16),
    ("gsk_", Body::Alphanumeric, 10),
    ("exa_", Body::Alphanumeric, 10),
    ("hf_", Body::Alphanumeric, 10),
    ("r8_", Body::Alphanumeric, 10),
    ("fw_", Body::Alphanumeric, 10),
    ("fpk_", Body::Alphanumeric, 10),
    ("api_org_", Body::Alphanumeric, 10),
    ("e2b_", Body::Alphanumeric, 10),
    ("dtn_", Body::Alphanumeric, 10),
    ("wandb_v1_", Body::Alphanumeric, 10),
    ("pcsk_", Body::Mixed, 10),
    ("tgp_v1_", Body::Mixed, 10),
    ("lsv2_pt_", Body::Mixed, 10),
    ("lsv2_sk_", Body::Mixed, 10),
    ("sk-lf-", Body::Token, 10),
    ("bb_live_", Body::Token, 10),
    ("bb_test_", Body::Mixed, 10),
    ("sk_live_", Body::Alphanumeric, 10),
    ("sk_test_", Body::Alphanumeric, 10),
    ("rk_live_", Body::Alphanumeric, 10),
    ("rk_test_", Body::Alphanumeric, 10),
    ("whsec_", Body::Mixed, 10),
    ("rzp_live_", Body::Mixed, 10),
    ("rzp_test_", Body::Mixed, 10),
    ("sq0atp-", Body::Token, 10),
    ("sq0csp-", Body::Token, 10),
    ("FLWSECK-", Body::Token, 10),
    ("FLWSECK_TEST-", Body::Token, 10),
    ("access-sandbox-", Body::Token, 10),
    ("access-production-", Body::Token, 10),
    ("shippo_live_", Body::Mixed, 10),
    ("shippo_test_", Body::Mixed, 10),
    ("duffel_live_", Body::Mixed, 10),
    ("duffel_test_", Body::Mixed, 10),
    ("live_sk_", Body::Mixed, 10),
    ("test_sk_", Body::Mixed, 10),
    ("ghp_", Body::Alphanumeric, 10),
    ("gho_", Body::Alphanumeric, 10),
    ("ghu_", Body::Alphanumeric, 10),
    ("ghs_", Body::Alphanumeric, 10),
    ("ghr_", Body::Alphanumeric, 10),
    ("github_pat_", Body::Word, 10),
    ("glpat-", Body::Token, 10),
    ("gldt-", Body::Token, 10),
    ("glrt-", Body::Token, 10),
    ("glcbt-", Body::Token, 10),
    ("glptt-", Body::Token, 10),
    ("glft-", Body::Token, 10),
    ("glimt-", Body::Token, 10),
    ("glagent-", Body::Token, 10),
    ("gloas-", Body::Token, 10),
    ("glsoat-", Body::Token, 10),
    ("glffct-", Body::Token, 10),
    ("ATATT3", Body::Token, 10),
    ("ATCTT3", Body::Token, 10),
    ("bkua_", Body::Mixed, 10),
    ("CCIPAT_", Body::Mixed, 10),
    ("CCIPRJ_", Body::Mixed, 10),
    ("sgp_", Body::Mixed, 10),
    ("sntrys_", Body::Mixed, 10),
    ("sntryu_", Body::Mixed, 10),
    ("squ_", Body::Mixed, 10),
    ("sqp_", Body::Mixed, 10),
    ("sqa_", Body::Mixed, 10),
    ("xoxa-", Body::Token, 10),
    ("xoxb-", Body::Token, 10),
    ("xoxp-", Body::Token, 10),
    ("xoxr-", Body::Token, 10),
    ("xoxs-", Body::Token, 10),
    ("xoxe-", Body::Token, 10),
    ("xoxo-", Body::Token, 10),
    ("xoxc-", Body::Token, 10),
    ("xoxd-", Body::Token, 10),
    ("xapp-", Body::Token, 10),
    ("xwfp-", Body::Token, 10),
    ("syt_", Body::Word, 10),
    ("mct_", Body::Mixed, 10),
    ("mat_", Body::Mixed, 10),
    ("mcr_", Body::Mixed, 10),
    ("AIza", Body::Token, 30),
    ("AKIA", Body::Sixteen, 16),
    ("ASIA", Body::Sixteen, 16),
    ("ABIA", Body::Sixteen, 16),
    ("ACCA", Body::Sixteen, 16),
    ("GOCSPX-", Body::Token, 10),
    ("HRKU-", Body::Token, 10),
    ("dckr_pat_", Body::Mixed, 10),
    ("dckr_oat_", Body::Mixed, 10),
    ("dp_pt_", Body::Mixed, 10),
    ("tskey-auth-", Body::Token, 10),
    ("tskey-api-", Body::Token, 10),
    ("tskey-client-", Body::Token, 10),
    ("tskey-scim-", Body::Token, 10),
    ("ngrok_", Body::Mixed, 10),
    ("nfp_", Body::Mixed, 10),
    ("rnd_", Body::Mixed, 10),
    ("vercel_blob_rw_", Body::Mixed, 10),
    ("vcp_", Body::Mixed, 10),
    ("sbp_", Body::Mixed, 10),
    ("sb_secret_", Body::Mixed, 10),
    ("napi_", Body::Mixed, 10),
    ("pscale_tkn_", Body::Mixed, 10),
    ("pscale_oauth_", Body::Mixed, 10),
    ("pscale_pw_", Body::Mixed, 10),
    ("mdb_sa_sk_", Body::Mixed, 10),
    ("CCDB1_", Body::Mixed, 10),
    ("PMAK-", Body::Token, 10),
    ("NRAK-", Body::Token, 10),
    ("NRJS-", Body::Token, 10),
    ("NRII-", Body::Token, 10),
    ("NRRA-", Body::Token, 10),
    ("glc_", Body::Mixed, 10),
    ("glsa_", Body::Mixed, 10),
    ("phx_", Body::Mixed, 10),
    ("phs_", Body::Mixed, 10),
    ("ddp_", Body::Mixed, 10),
    ("ddw_", Body::Mixed, 10),
    ("figd_", Body::Mixed, 10),
    ("figo_", Body::Mixed, 10),
    ("figor_", Body::Mixed, 10),
    ("rdme_", Body::Mixed, 10),
    ("tfp_", Body::Mixed, 10),
    ("CFPAT-", Body::Token, 10),
    ("CLOJARS_", Body::Mixed, 10),
    ("rubygems_", Body::Mixed, 10),
    ("npm_", Body::Alphanumeric, 10),
    ("pypi-", Body::Token, 10),
    ("lin_api_", Body::Mixed, 10),
    ("lin_oauth_", Body::Mixed, 10),
    ("ntn_", Body::Mixed, 10),
    ("shpat_", Body::Mixed, 10),
    ("shpca_", Body::Mixed, 10),
    ("shppa_", Body::Mixed, 10),
    ("shpss_", Body::Mixed, 10),
    ("AGE-SECRET-KEY-1", Body::Token, 10),
    ("aio_", Body::Mixed, 10),
    ("pnu_", Body::Mixed, 10),
    ("pnb_", Body::Mixed, 10),
    ("fio-u-", Body::Token, 10),
    ("fo1_", Body::Mixed, 10),
    ("fm2_", Body::Mixed, 10),
    ("bwsm_", Body::Mixed, 10),
    ("doppler_", Body::Mixed, 10),
    ("cfut_", Body::Mixed, 10),
    ("cfat_", Body::Mixed, 10),
    ("tk_live_", Body::Mixed, 10),
    ("dop_v1_", Body::Alphanumeric, 10),
    ("doo_v1_", Body::Alphanumeric, 10),
    ("dor_v1_", Body::Alphanumeric, 10),
    ("LTAI", Body::Alphanumeric, 20),
    ("AKID", Body::Alphanumeric, 20),
    ("EZAK", Body::Alphanumeric, 20),
    ("EZTK", Body::Alphanumeric, 20),
    ("ATBB", Body::Alphanumeric, 20),
    ("AKCp", Body::Alphanumeric, 20),
    ("oy2", Body::Alphanumeric, 20),
    ("dapi", Body::Alphanumeric, 32),
    ("secret_", Body::Alphanumeric, 32),
    ("SK", Body::Alphanumeric, 32),
    ("AQVN", Body::Alphanumeric, 32),
    ("y0_", Body::Alphanumeric, 32),
    ("AVNS_", Body::Mixed, 20),
    ("pul-", Body::Token, 20),
    ("ico-", Body::Token, 20),
    ("gAAAA", Body::Token, 20),
    ("fm1_", Body::Mixed, 20),
];

/// The shortest run that can be a key: anything below is passed over without looking at the table.
const SHORTEST: usize = 13;

pub(super) fn known_key(text: &str, from: usize) -> Option<Hit> {
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

/// Where inside a run a key may begin: at its start, or behind an escape (`\n`, `\u003d`, `%3D`) that only looks like
/// part of the run.
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

fn key_at(text: &str, start: usize, end: usize) -> Option<Hit> {
    let run = text.get(start..end)?;
    let hit = |end| Some(Hit { start, end, with: Mask::Token });
    if let Some(end) = dotted_end(text, run, end) {
        return hit(end);
    }
    if run.len() < SHORTEST {
        return None;
    }
    let fits = |(prefix, body, least): &(&str, Body, usize)| {
        run.strip_prefix(prefix).is_some_and(|rest| rest.len() >= *least && body.holds(rest))
    };
    KEYS.iter().any(fits).then_some(())?;
    // Fernet tokens are padded.
    let padding = text.get(end..)?.bytes().take_while(|byte| *byte == b'=').count();
    hit(if run.starts_with("gAAAA") { end + padding } else { end })
}

/// The end of a key made of parts with dots between, each with the least length of the parts behind the first.
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
        // A sentence's full stop is not part of a key.
        at = if part == at + 1 { at } else { part };
    }
    Some(at)
}

impl Body {
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
