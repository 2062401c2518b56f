//! Tests of the skill list in the prompt.

use std::fs;
use std::path::Path;

use hermes_config::{Config, Env, Home};
use hermes_knowledge::{SkillFile, SkillFileError, SkillFilter, SkillSet, SkillStatus, SkillUse};

fn skill(root: &Path, path: &str, head: &str) {
    let folder = root.join("skills").join(path);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("SKILL.md"), format!("---\n{head}\n---\nbody")).unwrap();
}

fn index(root: &Path, config: &str, change: impl FnOnce(&mut SkillFilter)) -> String {
    let config = Config::from_text(Path::new("config.yaml"), config, &Env::default());
    let mut filter = SkillFilter::from_config(&config, &Env::default(), "cli");
    "linux".clone_into(&mut filter.system);
    change(&mut filter);
    let set = SkillSet::load(&Home::new(root), &config, &Env::default(), &filter);
    let text = set.index().unwrap_or_default();
    text.split("<available_skills>\n")
        .nth(1)
        .unwrap_or_default()
        .trim_end_matches("</available_skills>")
        .to_owned()
}

#[test]
fn skills_are_listed_by_category() {
    let root = tempfile::tempdir().unwrap();
    skill(root.path(), "media/video", "name: video\ndescription: Cut clips");
    skill(root.path(), "media/audio", &format!("description: {}", "d".repeat(70)));
    skill(root.path(), "solo", "description: Alone\nmetadata: null");
    skill(root.path(), "media/.hub/x", "description: never");
    fs::write(root.path().join("skills/media/DESCRIPTION.md"), "---\ndescription: Sound and picture\n---\n")
        .unwrap();
    fs::create_dir_all(root.path().join("skills/broken")).unwrap();
    fs::write(root.path().join("skills/broken/SKILL.md"), "---\n: [\n---\n").unwrap();
    let long = format!("{}...", "d".repeat(57));
    assert_eq!(
        index(root.path(), "", |_| ()),
        format!(
            "  broken:\n    - broken\n  media: Sound and picture\n    - audio: {long}\n    - video: Cut clips\n  solo:\n    - solo: Alone\n"
        )
    );
}

#[test]
fn what_does_not_apply_is_hidden() {
    let root = tempfile::tempdir().unwrap();
    skill(root.path(), "unwanted", "description: x");
    skill(root.path(), "mac", "platforms: [macos]");
    skill(root.path(), "lin", "platforms: [linux]");
    skill(root.path(), "fallback", "metadata:\n  hermes:\n    fallback_for_toolsets: [web]");
    skill(root.path(), "needs", "metadata:\n  hermes:\n    requires_tools: [terminal]");
    let config = "skills:\n  disabled: [unwanted]\n";
    assert_eq!(index(root.path(), config, |_| ()), "  fallback:\n    - fallback\n  lin:\n    - lin\n");
    let with = index(root.path(), config, |filter| {
        filter.toolsets.insert("web".to_owned());
        filter.tools.insert("terminal".to_owned());
    });
    assert_eq!(with, "  lin:\n    - lin\n  needs:\n    - needs\n");
}

#[test]
fn the_homes_skill_shadows_one_from_elsewhere() {
    let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    skill(root.path(), "same", "description: ours");
    let folder = other.path().join("same");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("SKILL.md"), "---\ndescription: theirs\n---\n").unwrap();
    let config = format!("skills:\n  external_dirs: ['{}']\n", other.path().display());
    assert_eq!(index(root.path(), &config, |_| ()), "  same:\n    - same: ours\n");
}

#[test]
fn a_skill_is_called_by_its_name_its_folder_or_its_command() {
    let root = tempfile::tempdir().unwrap();
    skill(root.path(), "media/cutter", "name: Cut_My  Video!\ndescription: Cuts");
    skill(root.path(), "away", "description: never");
    skill(root.path(), "hidden", "metadata: {hermes: {requires_tools: [none]}}");
    skill(root.path(), "mac", "platforms: [macos]");
    fs::create_dir_all(root.path().join("skills/media/cutter/scripts")).unwrap();
    fs::write(root.path().join("skills/media/cutter/scripts/run.sh"), "true").unwrap();
    let config = Config::from_text(Path::new("config.yaml"), "skills: {disabled: [away]}", &Env::default());
    let mut filter = SkillFilter::from_config(&config, &Env::default(), "cli").for_use(SkillUse::Command);
    "linux".clone_into(&mut filter.system);
    let set = SkillSet::load(&Home::new(root.path()), &config, &Env::default(), &filter);
    let commands: Vec<String> =
        set.commands().into_iter().map(|(name, about)| format!("{name}: {about}")).collect();
    assert_eq!(commands, ["cut-my-video: Cuts", "hidden: body"]);
    let wanted = String::from(
        "[SYSTEM: The user has invoked the \"cutter\" skill. Its instructions follow; carry them out.]\n\n\
         ---\nname: Cut_My  Video!\ndescription: Cuts\n---\nbody\n\n\
         [Files that belong to this skill:]\n- scripts/run.sh\n\n\
         To read one: skill_view(name=\"cutter\", file_path=\"<path>\")\n\n\
         The user said with it: now\n\n[Runtime note: quietly]",
    );
    for called in ["cutter", "cut-my-video", "/Cut_My_Video"] {
        assert_eq!(
            set.invoke(called, " now ", Some("quietly")).as_deref(),
            Some(wanted.as_str()),
            "{called}"
        );
    }
    assert_eq!(set.invoke("away", "", None), None);
    assert_eq!(set.invoke("nothing", "", None), None);
}

fn whole(root: &Path, config: &str, platform: &str) -> SkillSet {
    let config = Config::from_text(Path::new("config.yaml"), config, &Env::default());
    let mut filter = SkillFilter::from_config(&config, &Env::default(), platform).for_use(SkillUse::Command);
    "linux".clone_into(&mut filter.system);
    SkillSet::load(&Home::new(root), &config, &Env::default(), &filter)
}

fn names(set: &SkillSet) -> Vec<&str> {
    set.skills().map(|skill| skill.name.as_str()).collect()
}

#[test]
fn the_walk_goes_on_below_a_skill_and_past_links() {
    let root = tempfile::tempdir().unwrap();
    skill(root.path(), "dogfood", "description: top");
    skill(root.path(), "dogfood/setup", "description: below");
    skill(root.path(), "dogfood/references/sample", "description: never");
    skill(root.path(), "dogfood/node_modules/x", "description: never");
    let skills = root.path().join("skills");
    fs::write(skills.join("dogfood/DESCRIPTION.md"), "---\ndescription: Tests\n---\n").unwrap();
    std::os::unix::fs::symlink(&skills, skills.join("dogfood/again")).unwrap();
    let away = tempfile::tempdir().unwrap();
    fs::write(away.path().join("SKILL.md"), "---\ndescription: linked\n---\n").unwrap();
    std::os::unix::fs::symlink(away.path(), skills.join("linked")).unwrap();
    assert_eq!(
        index(root.path(), "", |_| ()),
        "  dogfood: Tests\n    - dogfood: top\n    - setup: below\n  linked:\n    - linked: linked\n"
    );
}

#[test]
fn a_disabled_skill_stays_disabled_under_its_path() {
    let home = tempfile::tempdir().unwrap();
    skill(home.path(), "a/twin", "description: first");
    skill(home.path(), "b/twin", "description: second");
    let set = whole(home.path(), "skills: {disabled: [twin]}", "cli");
    for path in ["a/twin", "b/twin", "twin"] {
        assert_eq!(set.find(path).map(|skill| skill.status), Some(SkillStatus::Disabled), "{path}");
    }
}

#[test]
fn a_platform_list_replaces_the_general_one() {
    let root = tempfile::tempdir().unwrap();
    skill(root.path(), "a", "description: x");
    skill(root.path(), "b", "description: x");
    let config = "skills: {disabled: [a], platform_disabled: {telegram: [], slack: [b]}}";
    for (platform, offered) in [("cli", &["b"][..]), ("telegram", &["a", "b"]), ("slack", &["a"])] {
        assert_eq!(names(&whole(root.path(), config, platform)), offered, "{platform}");
    }
}

#[test]
fn malformed_front_matter_is_read_as_far_as_possible() {
    let root = tempfile::tempdir().unwrap();
    for (head, description) in [
        ("description: one: two: [", "one: two: ["),
        ("description: plain\nmetadata: 5", "plain"),
        ("- a\n- b", ""),
        ("metadata: {hermes: null}\nplatforms:", ""),
    ] {
        skill(root.path(), "x", head);
        let set = whole(root.path(), "", "cli");
        assert_eq!(set.find("x").unwrap().description, description, "{head}");
    }
    let set = whole(root.path(), "", "cli");
    assert!(set.view(set.find("x").unwrap(), &Home::new(root.path()), None).is_some());
}

#[test]
fn files_outside_a_skill_are_not_read() {
    let root = tempfile::tempdir().unwrap();
    skill(root.path(), "x", "description: y");
    let folder = root.path().join("skills/x");
    fs::create_dir_all(folder.join("references")).unwrap();
    fs::write(folder.join("references/a.md"), "text").unwrap();
    fs::write(folder.join("logo.png"), [0, 1, 2]).unwrap();
    fs::write(root.path().join(".env"), "KEY=secret").unwrap();
    std::os::unix::fs::symlink(root.path().join(".env"), folder.join("link")).unwrap();
    let set = whole(root.path(), "", "cli");
    let read = |path: &str| set.find("x").unwrap().read_file(path);
    assert_eq!(read("references/a.md"), Ok(SkillFile::Text { content: "text".to_owned(), truncated: false }));
    assert_eq!(read("logo.png"), Ok(SkillFile::Binary { bytes: 3 }));
    assert_eq!(read("../../.env"), Err(SkillFileError::Traversal));
    assert_eq!(read("/etc/passwd"), Err(SkillFileError::Outside));
    assert_eq!(read("link"), Err(SkillFileError::Outside));
    assert_eq!(read("none.md"), Err(SkillFileError::Missing));
    fs::remove_file(folder.join("SKILL.md")).unwrap();
    std::os::unix::fs::symlink(root.path().join(".env"), folder.join("SKILL.md")).unwrap();
    assert!(whole(root.path(), "", "cli").find("x").is_none(), "a link to another file is no skill");
}

#[test]
fn every_bundled_skill_is_found_and_the_index_stays_small() {
    let root = tempfile::tempdir().unwrap();
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../skills");
    let config = format!("skills: {{external_dirs: ['{}']}}", bundled.display());
    let set = whole(root.path(), &config, "cli");
    assert!(set.find("dogfood/hermes-agent-setup").is_some());
    let text = set.index().unwrap();
    assert!(text.len() < 8_000, "{} bytes", text.len());
}

#[test]
fn the_kept_index_follows_every_change() {
    let root = tempfile::tempdir().unwrap();
    let path = |path: &str| root.path().join("skills").join(path);
    let seen = || index(root.path(), "", |_| ());
    let age = || {
        // Older than any doubt about times of the same moment.
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
        for folder in ["", "media", "media/video", "media/audio"] {
            if let Ok(folder) = fs::File::open(path(folder)) {
                folder.set_modified(old).unwrap();
            }
        }
    };
    skill(root.path(), "media/video", "description: Cut clips");
    skill(root.path(), "media/audio", "description: Mix sound");
    age();
    assert_eq!(seen(), "  media:\n    - audio: Mix sound\n    - video: Cut clips\n");
    let kept = root.path().join("cache/skills_index.json");
    assert!(kept.is_file());
    assert_eq!(seen(), "  media:\n    - audio: Mix sound\n    - video: Cut clips\n");

    // The text changes: its size is another one.
    skill(root.path(), "media/video", "description: Cut many clips");
    assert_eq!(seen(), "  media:\n    - audio: Mix sound\n    - video: Cut many clips\n");
    // A skill and a description appear.
    skill(root.path(), "media/live", "description: Stream");
    fs::write(path("media/DESCRIPTION.md"), "---\ndescription: Sound\n---\n").unwrap();
    assert!(seen().starts_with("  media: Sound\n    - audio: Mix sound\n    - live: Stream\n"), "{}", seen());
    // They disappear, also when only the text of a skill is removed.
    fs::remove_dir_all(path("media/live")).unwrap();
    fs::remove_file(path("media/audio/SKILL.md")).unwrap();
    fs::remove_file(path("media/DESCRIPTION.md")).unwrap();
    assert_eq!(seen(), "  media:\n    - video: Cut many clips\n");
    // A file that is not an index, and one that is missing, are no obstacle.
    fs::write(&kept, "{").unwrap();
    assert_eq!(seen(), "  media:\n    - video: Cut many clips\n");
    fs::remove_dir_all(root.path().join("cache")).unwrap();
    assert_eq!(seen(), "  media:\n    - video: Cut many clips\n");
}

#[test]
fn a_great_many_skills_do_not_fill_the_prompt() {
    let root = tempfile::tempdir().unwrap();
    let index = |count: usize, length: usize| {
        for number in 0..count {
            let name = format!("{}-{number}", "x".repeat(length));
            skill(root.path(), &format!("some/{name}"), &format!("description: {}", "word ".repeat(20)));
        }
        whole(root.path(), "", "cli").index().unwrap()
    };
    assert!(index(300, 1).contains("    - x-7: word word"));
    let names = index(900, 1);
    assert!(names.contains("x-7, ") && !names.contains("- x-7: "), "only names");
    assert!(names.contains("skills_list(category)"));
    let counts = index(900, 50);
    assert!(counts.contains("  some: 1800 skills\n") && !counts.contains("x-7"), "{counts}");
    assert!(names.chars().count() < 42_000);
}
