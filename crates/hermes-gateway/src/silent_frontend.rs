//! A frontend for work that nobody watches.

use hermes_types::{BoxFuture, Cancel, Frontend, TurnEvent, UserAnswer, UserQuestion};

/// A frontend that shows nothing and asks nobody.
pub(crate) struct SilentFrontend;

impl Frontend for SilentFrontend {
    fn show(&self, _: TurnEvent) {}

    fn ask<'a>(&'a self, _: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(std::future::ready(UserAnswer::Unavailable))
    }
}
