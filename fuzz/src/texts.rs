//! Text that people and models write.

use std::cell::RefCell;

use hermes_text::{
    SearchQuery, SseEvent, SseParser, SseTooLarge, ThinkScrubber, Title, extract_inline_reasoning,
    next_title, strip_think, title_base,
};
use rusqlite::Connection;

use crate::cuts;

/// The events depend on the bytes alone, and hold no more than the bytes did.
pub fn sse(data: &[u8]) {
    for limit in [1 << 20, 1 + data.len() % 61] {
        let [whole, single, uneven] = cuts(data).map(|pieces| read_events(&pieces, limit));
        assert_eq!(whole, single, "limit {limit}");
        assert_eq!(whole, uneven, "limit {limit}");
        let (events, outcome) = whole;
        for event in &events {
            // One byte that is not UTF-8 becomes three.
            assert!(
                event.data.len() + event.event.len() <= 3 * limit,
                "{event:?} is beyond the limit {limit}"
            );
            assert!(!event.event.contains(['\n', '\r']), "{event:?}");
            assert!(!event.data.contains('\r'), "{event:?}");
        }
        let held: usize = events.iter().map(|event| event.data.len() + event.event.len()).sum();
        assert!(held <= 3 * data.len());
        assert!(outcome.is_ok() || 3 * data.len() > limit);
    }
}

fn read_events(pieces: &[&[u8]], limit: usize) -> (Vec<SseEvent>, Result<(), SseTooLarge>) {
    let mut parser = SseParser::new(limit);
    let outcome = pieces.iter().try_for_each(|piece| parser.push(piece));
    parser.finish();
    (std::iter::from_fn(|| parser.next_event()).collect(), outcome)
}

/// Streamed or whole, the same is shown and the same was thought; nothing is made up.
pub fn think(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let letters: Vec<String> = text.chars().map(String::from).collect();
    let [whole, single, uneven] =
        [vec![text.to_string()], letters, uneven_text(&text)].map(|pieces| scrub(&pieces));
    assert_eq!(whole, single);
    assert_eq!(whole, uneven);
    let (visible, reasoning) = whole;
    assert_eq!(strip_think(&text), visible);
    // Between two thoughts a blank line is put in, and it took two tags to part them.
    assert!(visible.len() + reasoning.len() <= text.len());
    assert!(is_subsequence(&visible, &text), "shown but never said: {visible:?}");
    if let Some(extracted) = extract_inline_reasoning(&text) {
        assert!(!extracted.trim().is_empty());
        assert!(extracted.len() <= text.len());
    }
}

fn uneven_text(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(1 + text.len() % 7).map(|piece| piece.iter().collect()).collect()
}

fn scrub(pieces: &[String]) -> (String, String) {
    let mut scrubber = ThinkScrubber::new();
    let (mut visible, mut reasoning) = (String::new(), String::new());
    for piece in pieces {
        let scrubbed = scrubber.feed(piece);
        visible += &scrubbed.visible;
        reasoning += &scrubbed.reasoning;
    }
    let rest = scrubber.finish();
    (visible + &rest.visible, reasoning + &rest.reasoning)
}

fn is_subsequence(part: &str, whole: &str) -> bool {
    let mut letters = whole.chars();
    part.chars().all(|wanted| letters.any(|letter| letter == wanted))
}

thread_local! {
    static INDEX: RefCell<Option<Connection>> = const { RefCell::new(None) };
}

/// Whatever a person types, the engine takes it.
pub fn search_query(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Some(query) = SearchQuery::sanitise(&text) else {
        return;
    };
    assert!(!query.words().is_empty());
    assert!(query.words().iter().all(|word| word.chars().any(char::is_alphanumeric)), "{query:?}");
    assert_eq!(query.as_str().matches('"').count() % 2, 0, "{query:?}");
    // Two quotes around a word of one letter, and a blank.
    assert!(query.as_str().chars().count() <= 4 * 2048);
    INDEX.with_borrow_mut(|index| {
        let index = index.get_or_insert_with(open_index);
        let found = index
            .prepare_cached("SELECT count(*) FROM docs WHERE docs MATCH ?1")
            .and_then(|mut statement| statement.query_one([query.as_str()], |row| row.get::<_, i64>(0)));
        if let Err(error) = found {
            panic!("{error}: {:?} from {text:?}", query.as_str());
        }
    });
}

fn open_index() -> Connection {
    let index = Connection::open_in_memory().expect("a database in memory opens");
    index
        .execute_batch(
            "CREATE VIRTUAL TABLE docs USING fts5(content); INSERT INTO docs VALUES ('a word, another');",
        )
        .expect("the bundled engine has full-text search");
    index
}

/// A title is short, in one line, and cleaning it twice changes nothing; the next of a series is a new one.
pub fn title(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(Some(title)) = Title::sanitise(&text) {
        let clean = title.as_str();
        assert!((1..=100).contains(&clean.chars().count()), "{clean:?}");
        assert!(!clean.chars().any(char::is_control), "{clean:?}");
        assert_eq!(clean.trim(), clean);
        assert_eq!(Title::sanitise(clean).as_ref(), Ok(&Some(title.clone())));
    }
    let titles: Vec<Title> = text.lines().filter_map(|line| Title::sanitise(line).ok().flatten()).collect();
    let taken: Vec<&str> = titles.iter().map(Title::as_str).collect();
    let Some(first) = taken.first() else { return };
    assert!(first.starts_with(title_base(first)));
    let next = next_title(first, taken.iter().copied());
    // The one number with no successor.
    if !next.ends_with(&format!(" #{}", u64::MAX)) {
        assert!(!taken.contains(&next.as_str()), "{next:?} is taken: {taken:?}");
    }
}
