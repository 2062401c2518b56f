//! The list of the built-in tools. Everything that enumerates tools without a registry is derived from it.

use hermes_memory::SERVICE_TOOLS;
use hermes_types::ToolDescriptor;

/// The descriptors of the built-in tools, in the order in which people see them.
pub const BUILT_IN_TOOLS: &[ToolDescriptor<'static>] = &all();

/// The tools of this crate.
const OWN_TOOLS: &[ToolDescriptor<'static>] = &[
    crate::read_file::DESCRIPTOR,
    crate::write_file::DESCRIPTOR,
    crate::patch::DESCRIPTOR,
    crate::search_files::DESCRIPTOR,
    crate::web::SEARCH_DESCRIPTOR,
    crate::web::EXTRACT_DESCRIPTOR,
    crate::browser::NAVIGATE,
    crate::browser::SNAPSHOT,
    crate::browser::CLICK,
    crate::browser::TYPE,
    crate::browser::SCROLL,
    crate::browser::BACK,
    crate::browser::PRESS,
    crate::browser::CLOSE,
    crate::browser::GET_IMAGES,
    crate::browser::VISION,
    crate::browser::CONSOLE,
    crate::vision::DESCRIPTOR,
    crate::image::DESCRIPTOR,
    crate::speech::DESCRIPTOR,
    crate::mixture::DESCRIPTOR,
    crate::terminal::DESCRIPTOR,
    crate::process::DESCRIPTOR,
    crate::code::DESCRIPTOR,
    crate::skills::LIST_DESCRIPTOR,
    crate::skills::VIEW_DESCRIPTOR,
    crate::skills::MANAGE_DESCRIPTOR,
    crate::todo::DESCRIPTOR,
    crate::memory::DESCRIPTOR,
    crate::session_search::DESCRIPTOR,
    crate::clarify::DESCRIPTOR,
    crate::cronjob::DESCRIPTOR,
    crate::send_message::DESCRIPTOR,
    crate::delegate::DESCRIPTOR,
    crate::homeassistant::LIST_ENTITIES,
    crate::homeassistant::GET_STATE,
    crate::homeassistant::LIST_SERVICES,
    crate::homeassistant::CALL_SERVICE,
    crate::rl::LIST_ENVIRONMENTS,
    crate::rl::SELECT_ENVIRONMENT,
    crate::rl::GET_CURRENT_CONFIG,
    crate::rl::EDIT_CONFIG,
    crate::rl::START_TRAINING,
    crate::rl::CHECK_STATUS,
    crate::rl::STOP_TRAINING,
    crate::rl::GET_RESULTS,
    crate::rl::LIST_RUNS,
    crate::rl::TEST_INFERENCE,
    crate::tool_search::SEARCH_DESCRIPTOR,
    crate::tool_search::DESCRIBE_DESCRIPTOR,
    crate::tool_search::CALL_DESCRIPTOR,
];

/// Joins them with the tools of memory services.
const fn all() -> [ToolDescriptor<'static>; OWN_TOOLS.len() + SERVICE_TOOLS.len()] {
    let mut all = [ToolDescriptor::unknown(""); OWN_TOOLS.len() + SERVICE_TOOLS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < OWN_TOOLS.len() { OWN_TOOLS[at] } else { SERVICE_TOOLS[at - OWN_TOOLS.len()] };
        at += 1;
    }
    all
}
