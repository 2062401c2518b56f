//! What reading a page costs: an article of half a megabyte, a table of the same size, and a page of five megabytes.
//!
//! `cargo bench -p hermes-extract`, or with the beginning of a name behind `--`. Prints a table beside the budget and judges nothing: a timing is no test.
#![expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::{Duration, Instant};

use hermes_extract::extract;

const RUNS: usize = 15;
const PARAGRAPH: &str = "<p>The harbour master keeps two ledgers, one for the tide and one for the boats, and he trusts \
                         neither of them <a href=\"/w\">without looking</a> out of the <em>window</em> first.</p>\n";
const ROW: &str =
    "<tr class=row><td class=c><a href='/i/7'>entry 7</a></td><td>7</td><td><span>ok</span></td></tr>\n";

fn main() {
    // `cargo test --benches` asks for a look, not for numbers.
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let article = |bytes: usize| {
        let text = PARAGRAPH.repeat(bytes / PARAGRAPH.len());
        format!(
            "<!doctype html><html><head><title>A</title></head><body><nav>n</nav><article>{text}</article></body></html>"
        )
    };
    let table = format!("<html><body><table>{}</table></body></html>", ROW.repeat(500_000 / ROW.len()));
    report("article, 500 KB, median <= 30 ms", &article(500_000));
    report("table, 500 KB, median <= 30 ms", &table);
    report("article, 5 MB, median", &article(5_000_000));
}

fn report(name: &str, page: &str) {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    if wanted.is_some_and(|wanted| !name.starts_with(&wanted)) {
        return;
    }
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            let read = extract(page.as_bytes(), Some("text/html"), "https://example.com/");
            assert!(read.is_ok(), "{read:?}");
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("{name:<34} {:.1} ms", times[RUNS / 2].as_secs_f64() * 1000.0);
}
