//! Web pages: the readable part as Markdown.
//!
//! The page is parsed once to remove what nobody sees and to find the article. Where most of the text is outside the
//! article, as in forums and lists, the whole page without its navigation is converted instead.

use dom_query::{Document, Element, NodeRef};
use dom_smoothie::{Config, Readability};
use htmd::HtmlToMarkdown;
use htmd::options::{BulletListMarker, HrStyle, Options};
use url::Url;

use crate::data_table::DataTables;
use crate::markup_cost::is_affordable;
use crate::{plain_markup, tidy};

/// Elements that a reader of the page does not see, or cannot use.
const UNSEEN: [&str; 14] = [
    "script", "style", "template", "noscript", "iframe", "object", "embed", "canvas", "svg", "button",
    "input", "select", "textarea", "dialog",
];
/// Styles that hide an element. Hidden text is removed because only a model would read it.
const HIDING_STYLES: [&str; 6] =
    ["display:none", "display: none", "visibility:hidden", "visibility: hidden", "font-size:0", "opacity:0"];
/// Classes of links to the heading they stand at.
const ANCHOR_CLASSES: [&str; 3] = ["headerlink", "anchor", "anchorjs-link"];
/// What surrounds the contents of a page.
const SURROUNDINGS: &str =
    "nav, footer, aside, [role=\"navigation\"], [role=\"banner\"], [role=\"contentinfo\"]";
/// The deepest tree that is converted; the converter is recursive.
const DEEPEST: usize = 400;
/// From this size on, in bytes, an article is not searched for where the page itself says what its contents are: the search goes over all
/// elements several times.
const LARGE_PAGE: usize = 200_000;
/// An article counts as the page if it has at least one part in this many of the page's text.
const LEAST_SHARE: usize = 2;
/// The longest title, in characters.
const LONGEST_TITLE: usize = 300;

/// Returns the title and the text of a page.
pub(crate) fn read(markup: &str, url: &str) -> (String, String) {
    if !is_affordable(markup) {
        return (plain_title(markup), plain_markup::text_of(markup));
    }
    let mut document = Document::from(markup);
    if is_too_deep(&document) {
        return (plain_title(markup), plain_markup::text_of(markup));
    }
    prepare(&document);
    let title = short_title(&document.select_single("title").text());
    let page_size = visible_size(&document.select("body").text());
    let base = base_of(&document, url);
    if markup.len() >= LARGE_PAGE {
        if let Some(text) = large(&document, markup, page_size, &base) {
            return (title, text);
        }
        // Its tables are no longer in it.
        document = Document::from(markup);
        prepare(&document);
    }
    let article = article(document, base.as_str());
    if let Some((own_title, content, size)) = article
        && size * LEAST_SHARE >= page_size
    {
        let title = if own_title.is_empty() { title } else { short_title(&own_title) };
        return (title, markdown(&content));
    }
    (title, whole(markup, &base))
}

/// Returns the text of a large page that says where its contents are, or that consists of tables.
fn large(document: &Document, markup: &str, page_size: usize, base: &PageAddress) -> Option<String> {
    let has_most = |node: &NodeRef<'_>| visible_size(&node.text()) * LEAST_SHARE >= page_size;
    let marked = document.select("main, [role=\"main\"], article");
    let marked = marked.nodes().iter().find(|node| has_most(node));
    if let Some(base) = base.url() {
        resolve_links(document, base);
    }
    let tables = DataTables::take_from(document, markup);
    let contents = match marked {
        Some(marked) => marked.inner_html(),
        None if tables.size() * LEAST_SHARE >= page_size => document.select("body").inner_html(),
        None => return None,
    };
    Some(tables.put_into(markdown(&contents)))
}

/// Converts a piece of markup, such as the text of a feed's entry.
pub(crate) fn fragment(markup: &str, url: &str) -> String {
    if !markup.contains('<') && !markup.contains('&') {
        return markup.trim().to_owned();
    }
    if !is_affordable(markup) {
        return plain_markup::text_of(markup);
    }
    let document = Document::from(markup);
    if is_too_deep(&document) {
        return plain_markup::text_of(markup);
    }
    remove_unseen(&document);
    if let Ok(base) = Url::parse(url) {
        resolve_links(&document, &base);
    }
    markdown(&document.select("body").inner_html())
}

/// Returns the title, the markup and the size of the article.
fn article(document: Document, base: &str) -> Option<(String, String, usize)> {
    // Classes are kept because they name the language of code.
    let config = Config { keep_classes: true, ..Config::default() };
    let base = (!base.is_empty()).then_some(base);
    let mut readability = Readability::with_document(document, base, Some(config)).ok()?;
    let article = readability.parse().ok()?;
    let size = visible_size(&article.text_content);
    Some((tidy::one_line(&article.title), article.content.to_string(), size))
}

/// Converts the whole page without its surroundings.
fn whole(markup: &str, base: &PageAddress) -> String {
    let document = Document::from(markup);
    prepare(&document);
    if let Some(base) = base.url() {
        resolve_links(&document, base);
    }
    let main = document.select_single("main, [role=\"main\"]");
    let has_most =
        main.exists() && visible_size(&main.text()) * 2 > visible_size(&document.select("body").text());
    let content = if has_most { main.inner_html() } else { document.select("body").inner_html() };
    let text = markdown(&content);
    // A page of frames has its only text where the parser does not look.
    if text.trim().is_empty() { plain_markup::text_of(markup) } else { text }
}

/// Removes what is not read, and makes the code of old pages recognizable.
fn prepare(document: &Document) {
    remove_unseen(document);
    for node in document.select(SURROUNDINGS).nodes() {
        // The footer of an article belongs to it.
        if !node.ancestors_it(None).any(|parent| parent.is("article, main, [role=\"main\"]")) {
            node.remove_from_parent();
        }
    }
    for node in document.select("pre:not(:has(code))").nodes() {
        let code = format!("<code>{}</code>", node.inner_html());
        node.set_html(code);
    }
}

/// Removes what nobody sees. One walk over a large page takes a fraction of a selector with as many parts.
fn remove_unseen(document: &Document) {
    let all = document.root().descendants_it();
    let unseen: Vec<NodeRef<'_>> =
        all.filter(|node| node.element_ref().is_some_and(|element| is_unseen(&element))).collect();
    for node in unseen {
        node.remove_from_parent();
    }
}

fn is_unseen(element: &Element) -> bool {
    let name: &str = &element.name.local;
    UNSEEN.contains(&name)
        || element.attrs.iter().any(|attribute| {
            let value: &str = &attribute.value;
            match &*attribute.name.local {
                "hidden" => true,
                "aria-hidden" => value == "true",
                "style" => HIDING_STYLES.iter().any(|style| value.contains(style)),
                "src" => name == "img" && value.starts_with("data:"),
                "class" => {
                    name == "a" && value.split_ascii_whitespace().any(|class| ANCHOR_CLASSES.contains(&class))
                }
                _ => false,
            }
        })
}

fn short_title(title: &str) -> String {
    tidy::one_line(title).chars().take(LONGEST_TITLE).collect()
}

/// The address against which links are resolved: the page's own, or the one in its `base` element.
struct PageAddress(Option<Url>);

impl PageAddress {
    fn url(&self) -> Option<&Url> {
        self.0.as_ref()
    }

    fn as_str(&self) -> &str {
        self.0.as_ref().map_or("", Url::as_str)
    }
}

fn base_of(document: &Document, url: &str) -> PageAddress {
    let own = Url::parse(url).ok();
    let named = document.select_single("base[href]").attr("href");
    let base = named.and_then(|href| match &own {
        Some(own) => own.join(&href).ok(),
        None => Url::parse(&href).ok(),
    });
    PageAddress(base.filter(|base| matches!(base.scheme(), "http" | "https")).or(own))
}

fn resolve_links(document: &Document, base: &Url) {
    for (selector, attribute) in [("a[href]", "href"), ("img[src]", "src")] {
        for node in document.select(selector).nodes() {
            let Some(value) = node.attr(attribute) else { continue };
            if let Ok(resolved) = base.join(&value) {
                node.set_attr(attribute, resolved.as_str());
            }
        }
    }
}

fn markdown(content: &str) -> String {
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        hr_style: HrStyle::Dashes,
        ..Options::default()
    };
    let converter = HtmlToMarkdown::builder().options(options).skip_tags(vec!["head"]).build();
    match converter.convert(content) {
        Ok(text) => tidy::lines(&text),
        Err(_) => plain_markup::text_of(content),
    }
}

/// Counts the characters that are not blank.
fn visible_size(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}

/// Tells whether a tree is nested too deeply for a recursive converter. Walks without recursion.
fn is_too_deep(document: &Document) -> bool {
    let mut node = document.root();
    let mut depth = 0usize;
    loop {
        if let Some(child) = node.first_child() {
            depth += 1;
            if depth > DEEPEST {
                return true;
            }
            node = child;
            continue;
        }
        loop {
            if depth == 0 {
                return false;
            }
            if let Some(next) = node.next_sibling() {
                node = next;
                break;
            }
            let Some(parent) = node.parent() else { return false };
            node = parent;
            depth -= 1;
        }
    }
}

/// Returns the title of markup that is not parsed.
fn plain_title(markup: &str) -> String {
    let Some((_, rest)) = markup.split_once("<title") else { return String::new() };
    let Some((_, rest)) = rest.split_once('>') else { return String::new() };
    let title = rest.split('<').next().unwrap_or_default();
    short_title(&plain_markup::text_of(title))
}
