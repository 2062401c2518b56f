//! Feeds: RSS, Atom and JSON Feed, as a list of entries in Markdown.

use std::fmt::Write as _;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use serde_json::Value;

use crate::{html, plain_markup, tidy};

/// The most entries, and the longest text of one, in characters.
const MOST_ENTRIES: usize = 200;
const LONGEST_ENTRY: usize = 20_000;

#[derive(Debug, Default)]
struct FeedEntry {
    title: String,
    link: String,
    date: String,
    text: String,
    /// Tells whether `text` is the whole entry and not only its summary.
    is_whole: bool,
}

/// The field of a feed that an element holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FeedField {
    Title,
    Link,
    Date,
    Summary,
    Content,
}

impl FeedField {
    fn of(name: &str) -> Option<Self> {
        match name {
            "title" => Some(Self::Title),
            "link" => Some(Self::Link),
            "pubDate" | "published" | "updated" | "date" => Some(Self::Date),
            "description" | "summary" | "subtitle" => Some(Self::Summary),
            "encoded" | "content" => Some(Self::Content),
            _ => None,
        }
    }
}

/// Returns the title and the entries of an RSS or Atom feed. Damaged XML is read as far as it goes.
pub(crate) fn read(xml: &str, url: &str) -> (String, String) {
    let mut reader = Reader::from_str(xml);
    let config = reader.config_mut();
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    config.allow_dangling_amp = true;
    let mut feed = FeedEntry::default();
    let mut entries: Vec<FeedEntry> = Vec::new();
    let mut in_entry = false;
    // The field being read, and how many elements are open inside it.
    let mut field: Option<(FeedField, usize)> = None;
    let mut text = String::new();
    loop {
        let event = match reader.read_event() {
            Ok(Event::Eof) | Err(_) => break,
            Ok(event) => event,
        };
        match event {
            Event::Start(element) => {
                if let Some((_, depth)) = &mut field {
                    *depth += 1;
                    continue;
                }
                let name = element.local_name();
                if matches!(name.as_ref(), "item" | "entry") {
                    if entries.len() == MOST_ENTRIES {
                        break;
                    }
                    entries.push(FeedEntry::default());
                    in_entry = true;
                    continue;
                }
                field = FeedField::of(name.as_ref()).map(|known| (known, 0));
                text.clear();
                if let Some(target) = target(&mut feed, &mut entries, in_entry) {
                    take_link(&element, target);
                }
            }
            Event::Empty(element) => {
                if let Some(target) = target(&mut feed, &mut entries, in_entry) {
                    take_link(&element, target);
                }
            }
            Event::Text(part) => push(&mut text, field, &part),
            Event::CData(part) => push(&mut text, field, &part),
            Event::GeneralRef(name) => {
                let entity = format!("&{};", &*name);
                push(&mut text, field, &decoded(&entity));
            }
            Event::End(element) => match &mut field {
                Some((_, depth)) if *depth > 0 => *depth -= 1,
                Some((known, _)) => {
                    if let Some(target) = target(&mut feed, &mut entries, in_entry) {
                        set(target, *known, &text);
                    }
                    field = None;
                }
                None => in_entry &= !matches!(element.local_name().as_ref(), "item" | "entry"),
            },
            _ => {}
        }
    }
    if entries.is_empty() && feed.title.is_empty() {
        return (String::new(), plain_markup::text_of(xml));
    }
    (tidy::one_line(&feed.title), render(&feed, &entries, url))
}

/// Returns the title and the entries of a JSON feed; `None` if the document is none.
pub(crate) fn read_json(value: &Value, url: &str) -> Option<(String, String)> {
    let is_feed = value.get("version")?.as_str()?.contains("jsonfeed.org");
    let items = value.get("items").and_then(Value::as_array).filter(|_| is_feed)?;
    let field = |value: &Value, names: &[&str]| {
        names.iter().find_map(|name| value.get(name)?.as_str()).unwrap_or_default().to_owned()
    };
    let entry = |item: &Value| FeedEntry {
        title: field(item, &["title"]),
        link: field(item, &["url", "external_url"]),
        date: field(item, &["date_published", "date_modified"]),
        text: field(item, &["content_html", "content_text", "summary"]),
        is_whole: true,
    };
    let feed = FeedEntry {
        title: field(value, &["title"]),
        text: field(value, &["description"]),
        ..FeedEntry::default()
    };
    let entries: Vec<FeedEntry> = items.iter().take(MOST_ENTRIES).map(entry).collect();
    Some((tidy::one_line(&feed.title), render(&feed, &entries, url)))
}

fn target<'a>(
    feed: &'a mut FeedEntry,
    entries: &'a mut [FeedEntry],
    in_entry: bool,
) -> Option<&'a mut FeedEntry> {
    if in_entry { entries.last_mut() } else { Some(feed) }
}

fn push(text: &mut String, field: Option<(FeedField, usize)>, part: &str) {
    if field.is_some() && text.len() < LONGEST_ENTRY * 4 {
        text.push_str(part);
    }
}

/// Takes the address of an Atom `link` element, unless it leads to something else than the entry.
fn take_link(element: &BytesStart<'_>, entry: &mut FeedEntry) {
    if element.local_name().as_ref() != "link" || !entry.link.is_empty() {
        return;
    }
    let attribute = |name: &str| {
        let value = element.try_get_attribute(name).ok().flatten()?.value;
        Some(decoded(&value))
    };
    let is_own = attribute("rel").is_none_or(|rel| rel == "alternate");
    if let Some(href) = attribute("href").filter(|_| is_own) {
        entry.link = href;
    }
}

fn set(entry: &mut FeedEntry, field: FeedField, text: &str) {
    let text = text.trim();
    match field {
        FeedField::Title if entry.title.is_empty() => entry.title = plain_markup::text_of(text),
        FeedField::Link if entry.link.is_empty() => text.clone_into(&mut entry.link),
        FeedField::Date if entry.date.is_empty() => text.clone_into(&mut entry.date),
        FeedField::Summary if !entry.is_whole => text.clone_into(&mut entry.text),
        FeedField::Content if !text.is_empty() => {
            text.clone_into(&mut entry.text);
            entry.is_whole = true;
        }
        _ => {}
    }
}

fn render(feed: &FeedEntry, entries: &[FeedEntry], url: &str) -> String {
    let mut text = html::fragment(&feed.text, url);
    for entry in entries {
        let title = tidy::one_line(&entry.title);
        let title = if title.is_empty() { "(no title)".to_owned() } else { title };
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\n\n## {title}\n");
        for line in [&entry.link, &entry.date] {
            if !line.is_empty() {
                let _ = write!(text, "\n{}", tidy::one_line(line));
            }
        }
        let body: String = html::fragment(&entry.text, url).chars().take(LONGEST_ENTRY).collect();
        if !body.trim().is_empty() {
            let _ = write!(text, "\n\n{}", body.trim());
        }
    }
    text.trim().to_owned()
}

/// Decodes entities; a text with an unknown one stays as it is.
fn decoded(text: &str) -> String {
    quick_xml::escape::unescape(text).map_or_else(|_| text.to_owned(), std::borrow::Cow::into_owned)
}
