//! The descriptors of the browser tools.

use hermes_types::ToolDescriptor;

const OFFERED: &str = "a browser is installed or configured";

const fn descriptor(
    name: &'static str,
    icon: &'static str,
    verb: &'static str,
    summary: &'static str,
    preview_arguments: &'static [&'static str],
) -> ToolDescriptor<'static> {
    ToolDescriptor {
        name,
        toolset: "browser",
        summary,
        condition: OFFERED,
        icon,
        verb,
        preview_arguments,
        ..ToolDescriptor::unknown("")
    }
}

pub(crate) const NAVIGATE: ToolDescriptor<'static> =
    descriptor("browser_navigate", "🌐", "navigate", "Opens a page in a browser", &["url"]);
pub(crate) const SNAPSHOT: ToolDescriptor<'static> =
    descriptor("browser_snapshot", "📸", "snapshot", "Reads the open page as text with references", &[]);
pub(crate) const CLICK: ToolDescriptor<'static> =
    descriptor("browser_click", "👆", "click", "Clicks an element", &["ref"]);
pub(crate) const TYPE: ToolDescriptor<'static> =
    descriptor("browser_type", "⌨️", "type", "Fills in a field", &["text"]);
pub(crate) const SCROLL: ToolDescriptor<'static> =
    descriptor("browser_scroll", "📜", "scroll", "Scrolls the page", &["direction"]);
pub(crate) const BACK: ToolDescriptor<'static> =
    descriptor("browser_back", "◀️", "back", "Goes back to the page before", &[]);
pub(crate) const PRESS: ToolDescriptor<'static> =
    descriptor("browser_press", "⌨️", "press", "Presses a key", &["key"]);
pub(crate) const CLOSE: ToolDescriptor<'static> =
    descriptor("browser_close", "🚪", "close", "Closes the browser", &[]);
pub(crate) const GET_IMAGES: ToolDescriptor<'static> =
    descriptor("browser_get_images", "🖼️", "images", "Lists the pictures of the page", &[]);
pub(crate) const VISION: ToolDescriptor<'static> = ToolDescriptor {
    condition: "as the other browser tools, and a model that reads pictures is configured",
    ..descriptor("browser_vision", "👁️", "vision", "Answers questions about a screenshot", &["question"])
};
pub(crate) const CONSOLE: ToolDescriptor<'static> =
    descriptor("browser_console", "🖥️", "console", "Shows console messages and script errors", &[]);
