//! Skills: how long the list takes when nothing changed, and the scan of a large skill.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use hermes_config::{Config, Env, Home};
use hermes_guard::{SkillEntry, scan_skill};
use hermes_knowledge::{SkillFilter, SkillSet};
use hermes_testkit::TempHome;

use super::Measurement;

const SKILLS: usize = 10_000;
const FILES: usize = 500;
const RUNS: usize = 9;

pub(crate) fn measure() -> Result<Vec<Measurement>> {
    Ok(vec![
        Measurement { name: "skills list, 10000 unchanged", value: list()? },
        Measurement { name: "skill scan, 500 files", value: scan()? },
    ])
}

fn list() -> Result<f64> {
    let home = TempHome::new().context("no home")?;
    for number in 0..SKILLS {
        let folder = home.join(format!("skills/category-{}/skill-{number}", number % 50));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("SKILL.md"), skill(number))?;
    }
    let env = Env::default();
    let config = Config::from_text(Path::new("config.yaml"), "", &env);
    let filter = SkillFilter::from_config(&config, &env, "cli");
    let load = || {
        let set = SkillSet::load(&Home::new(home.path()), &config, &env, &filter);
        (set.skills().count(), set.index())
    };
    // The second walk keeps what the first could not rely on, because it was too new.
    std::thread::sleep(std::time::Duration::from_secs(3));
    load();
    let value = median(load)?;
    if load().0 < SKILLS {
        bail!("the list does not hold all skills");
    }
    Ok(value)
}

fn scan() -> Result<f64> {
    let files: Vec<(String, String)> =
        (0..FILES).map(|number| (format!("references/{number}.md"), skill(number).repeat(20))).collect();
    let entries: Vec<SkillEntry<'_>> = files
        .iter()
        .map(|(path, text)| SkillEntry::File { path, bytes: text.as_bytes(), executable: false })
        .collect();
    median(|| scan_skill(&entries))
}

fn skill(number: usize) -> String {
    format!(
        "---\nname: skill-{number}\ndescription: Does the thing with number {number} and says so\n---\n\n\
         # Thing {number}\n\n## Procedure\n\n1. Run `cargo build` and read what it says.\n\
         2. Look at the host and its tokens.\n3. Fetch https://example.com/{number} with curl.\n"
    )
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn median<T>(mut work: impl FnMut() -> T) -> Result<f64> {
    work();
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let began = Instant::now();
            std::hint::black_box(work());
            began.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times.get(RUNS / 2).copied().context("no times")
}
