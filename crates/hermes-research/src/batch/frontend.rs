//! The frontend of a conversation that nobody watches: it counts what is spent, and gives no permission.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hermes_types::{BoxFuture, Cancel, Frontend, TurnEvent, UserAnswer, UserQuestion};

use super::progress::BatchProgress;

pub(super) struct RolloutFrontend {
    pub(super) progress: Arc<BatchProgress>,
}

impl Frontend for RolloutFrontend {
    fn show(&self, event: TurnEvent) {
        if let TurnEvent::Spent { cost, .. } = event {
            match cost.micro_usd {
                Some(amount) => self.progress.micro_usd.fetch_add(amount, Relaxed),
                None => self.progress.unpriced.fetch_add(1, Relaxed),
            };
        }
    }

    fn ask<'a>(&'a self, _: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(std::future::ready(UserAnswer::Unavailable))
    }
}
