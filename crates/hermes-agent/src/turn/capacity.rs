//! Measures how full the conversation is and compresses it when needed.

use hermes_store::Error as StoreError;
use hermes_types::{TurnEvent, TurnNoticeKind};

use super::gauge::prefix_tokens;
use super::turn_loop::RunningTurn;
use crate::settings::CompressionMode;

/// The most compressions for one reason in one turn.
pub(super) const MAX_COMPRESSIONS: u32 = 3;
/// The share of the threshold from which the user is told that a compression is near.
const PRESSURE: f64 = 0.85;

impl RunningTurn<'_> {
    pub(crate) fn window(&self) -> u64 {
        let known = self.agent.window(self.conversation);
        self.rejected_size.map_or(known, |ceiling| ceiling.min(known))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "token counts are far below 2^52, the share is between 0 and 1"
    )]
    pub(crate) fn threshold(&self) -> u64 {
        (self.window() as f64 * self.agent.compression.threshold) as u64
    }

    pub(crate) fn size(&self) -> u64 {
        let prefix = prefix_tokens(self.conversation.system.as_deref().unwrap_or_default(), &self.specs);
        self.conversation.gauge.estimate(prefix, &self.conversation.messages)
    }

    /// Compresses a conversation that has reached its threshold; tells the user once when it comes near.
    pub(super) async fn compress_if_full(&mut self) -> Result<(), StoreError> {
        if self.agent.compression.mode == CompressionMode::Off {
            return Ok(());
        }
        let threshold = self.threshold();
        for _ in 0..MAX_COMPRESSIONS {
            if self.size() < threshold || !self.compress(None).await? {
                break;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
        let share = self.size() as f64 / (threshold.max(1)) as f64;
        if share >= PRESSURE && !self.conversation.pressure_reported {
            self.conversation.pressure_reported = true;
            let percent = (share * 100.0).min(100.0);
            let text =
                format!("The conversation fills {percent:.0} % of what it may before it is summarised.");
            self.frontend.show(TurnEvent::Notice { kind: TurnNoticeKind::ContextPressure, text });
        }
        Ok(())
    }
}
