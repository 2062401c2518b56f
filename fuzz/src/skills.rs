//! Skills that anybody may have written.

use hermes_guard::{SkillEntry, scan_skill};

/// Findings name a line that exists, quote little, and depend on the bytes alone. A critical line is found whatever stands
/// around it.
pub fn skill_scan(data: &[u8]) {
    let scan = |bytes: &[u8]| scan_skill(&[SkillEntry::File { path: "SKILL.md", bytes, executable: false }]);
    let found = scan(data);
    assert_eq!(found, scan(data));
    let lines = String::from_utf8_lossy(data).lines().count();
    for finding in &found.findings {
        assert!(finding.line <= lines, "{finding:?}");
        assert!(finding.quote.chars().count() <= 123, "{finding:?}");
    }
    let attacked = scan(&[data, b"\nrm -rf /\n"].concat());
    assert!(attacked.findings.iter().any(|finding| finding.pattern_id == "destructive_root_rm"));
}
