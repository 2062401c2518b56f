//! Tool calls in the raw text of models, and the JSON in them.

use hermes_text::{JsonTree, ToolCallParser, ToolCallStream};

use crate::cuts;

/// In whatever pieces a text arrives, it has the same calls; a part of a call is never shown, and a text without calls is shown whole.
/// What is read as JSON reads back as the same value.
pub fn tool_calls(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(tree) = JsonTree::parse(&text) {
        assert_eq!(JsonTree::parse(&tree.to_string()).as_ref(), Ok(&tree));
        assert_eq!(JsonTree::parse(&tree.pretty()).as_ref(), Ok(&tree));
    }
    for name in ToolCallParser::names() {
        let Ok(parser) = ToolCallParser::named(name) else { panic!("{name}") };
        let whole = parser.parse(&text);
        for pieces in cuts(text.as_bytes()) {
            let mut stream = ToolCallStream::new(parser);
            let mut shown = String::new();
            let mut held = Vec::new();
            for piece in pieces {
                held.extend_from_slice(piece);
                // Pieces of a stream end between characters.
                if let Ok(piece) = std::str::from_utf8(&held) {
                    shown.push_str(&stream.push(piece));
                    held.clear();
                }
            }
            let (parsed, rest) = stream.finish();
            assert_eq!(parsed, whole, "{name}");
            match &parsed {
                None => assert_eq!(shown + &rest, text, "{name}"),
                Some(parsed) => {
                    assert!(
                        !parsed.calls.is_empty() && parsed.calls.iter().all(|call| !call.name.is_empty())
                    );
                    assert!(text.starts_with(&shown) && rest.is_empty(), "{name}");
                }
            }
        }
    }
}
