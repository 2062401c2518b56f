//! What reading a large page costs.

use std::time::Instant;

use anyhow::{Context as _, Result};
use hermes_extract::extract;

use super::Measurement;

const RUNS: usize = 15;
const SIZE: usize = 500_000;
const PARAGRAPH: &str = "<p>The harbour master keeps two ledgers, one for the tide and one for the boats, and he trusts \
                         neither of them <a href=\"/w\">without looking</a> out of the <em>window</em> first.</p>\n";
const ROW: &str =
    "<tr class=row><td class=c><a href='/i/7'>entry 7</a></td><td>7</td><td><span>ok</span></td></tr>\n";

pub(crate) fn measure() -> Result<Vec<Measurement>> {
    let article = PARAGRAPH.repeat(SIZE / PARAGRAPH.len());
    let article = format!(
        "<html><head><title>A</title></head><body><nav>n</nav><article>{article}</article></body></html>"
    );
    let table = format!("<html><body><table>{}</table></body></html>", ROW.repeat(SIZE / ROW.len()));
    Ok(vec![
        Measurement { name: "article of 500 KB, median", value: median(&article)? },
        Measurement { name: "table of 500 KB, median", value: median(&table)? },
    ])
}

/// Returns the milliseconds that reading a page takes.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn median(page: &str) -> Result<f64> {
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let began = Instant::now();
        extract(page.as_bytes(), Some("text/html"), "https://example.com/")
            .context("the page has no text")?;
        times.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_unstable_by(f64::total_cmp);
    times.get(RUNS / 2).copied().context("no runs")
}
