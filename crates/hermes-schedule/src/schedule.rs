//! A schedule as it is stored, and the computation of its next due time.

use hermes_types::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::expression::Expression;
use crate::zone::{Zone, parse_instant};

/// The seconds by which the time of a one-time job may lie in the past and still be its next time.
pub(crate) const ONCE_WINDOW: f64 = 120.0;
const GRACE: (f64, f64) = (120.0, 7200.0);

/// `{kind, minutes | expr | run_at, display}`, stored unchanged.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Schedule(Map<String, Value>);

/// The parsed form of a schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ScheduleKind<'a> {
    Interval { minutes: u64 },
    Cron { expression: &'a str },
    Once { at: Timestamp },
}

impl Schedule {
    pub(crate) fn interval(minutes: u64) -> Self {
        let display = format!("every {minutes}m");
        Self::of(json!({"kind": "interval", "minutes": minutes, "display": display}))
    }

    pub(crate) fn cron(expression: &str) -> Self {
        Self::of(json!({"kind": "cron", "expr": expression, "display": expression}))
    }

    pub(crate) fn once(run_at: &str, display: &str) -> Self {
        Self::of(json!({"kind": "once", "run_at": run_at, "display": display}))
    }

    fn of(value: Value) -> Self {
        match value {
            Value::Object(fields) => Self(fields),
            _ => Self::default(),
        }
    }

    pub fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// Returns the parsed form, or `None` for a kind that this release does not know.
    pub fn kind(&self) -> Option<ScheduleKind<'_>> {
        match self.text("kind")? {
            "interval" => {
                let minutes = self.0.get("minutes")?;
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "filtered below")]
                let minutes = minutes.as_u64().or_else(|| minutes.as_f64().map(|minutes| minutes as u64))?;
                (minutes > 0).then_some(ScheduleKind::Interval { minutes })
            }
            "cron" => Some(ScheduleKind::Cron { expression: self.text("expr")? }),
            "once" => Some(ScheduleKind::Once { at: parse_instant(self.text("run_at")?)? }),
            _ => None,
        }
    }

    pub fn display(&self) -> Option<&str> {
        self.text("display")
    }

    /// Tells whether the schedule repeats.
    pub fn recurs(&self) -> bool {
        matches!(self.kind(), Some(ScheduleKind::Interval { .. } | ScheduleKind::Cron { .. }))
    }

    /// Returns the next time after the last run, or `None` when there is no further one.
    pub fn next(&self, last: Option<Timestamp>, now: Timestamp, zone: Zone) -> Option<Timestamp> {
        match self.kind()? {
            ScheduleKind::Once { at } => {
                (last.is_none() && at.seconds() >= now.seconds() - ONCE_WINDOW).then_some(at)
            }
            ScheduleKind::Interval { minutes } => {
                Some(Timestamp(last.unwrap_or(now).seconds() + seconds(minutes)))
            }
            ScheduleKind::Cron { expression } => Expression::parse(expression).ok()?.next(now, zone),
        }
    }

    /// Returns how many seconds late a recurring run may begin: half its period, within bounds.
    pub fn grace(&self, now: Timestamp, zone: Zone) -> f64 {
        let period = match self.kind() {
            Some(ScheduleKind::Interval { minutes }) => seconds(minutes),
            Some(ScheduleKind::Cron { expression }) => Expression::parse(expression)
                .ok()
                .and_then(|expression| {
                    let first = expression.next(now, zone)?;
                    Some(expression.next(first, zone)?.seconds() - first.seconds())
                })
                .unwrap_or(GRACE.1),
            Some(ScheduleKind::Once { .. }) | None => return f64::INFINITY,
        };
        (period / 2.0).clamp(GRACE.0, GRACE.1)
    }

    /// Returns the instants after `from` and up to `to`, oldest first, at most `most`.
    pub(crate) fn between(&self, from: Timestamp, to: Timestamp, zone: Zone, most: usize) -> Vec<Timestamp> {
        let Some(ScheduleKind::Cron { expression }) = self.kind() else { return Vec::new() };
        let Ok(expression) = Expression::parse(expression) else { return Vec::new() };
        let next =
            |after: &Timestamp| expression.next(*after, zone).filter(|at| at.seconds() <= to.seconds());
        std::iter::successors(next(&from), next).take(most).collect()
    }
}

fn seconds(minutes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "minutes of a schedule")]
    let minutes = minutes as f64;
    minutes * 60.0
}
