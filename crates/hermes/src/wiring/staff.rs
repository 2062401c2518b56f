//! Agents for the gateway: one per platform and reading of the configuration, with the hands of the whole process.
//!
//! What `terminal` and `approvals` say is read at the start of the process; everything else follows the files.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hermes_agent::{Agent, LaterLogs, Logs};
use hermes_config::{Home, Surface};
use hermes_gateway::{Agents, Live, Settings, Wish};
use hermes_model::provider::Choice;
use hermes_store::Store;
use hermes_types::{Clock, TaskId};

use super::courier::LateCourier;
use super::{Hands, Order, Wired, assemble};
use crate::cli::ChatArguments;
use crate::context::{Context, local_time};
use crate::output::Output;

/// Makes agents, and keeps them while nothing changes.
pub(crate) struct Staff {
    live: Live,
    store: Store,
    clock: Arc<dyn Clock>,
    hands: Hands,
    logs: Arc<LaterLogs>,
    courier: Arc<LateCourier>,
    made: Mutex<HashMap<String, Made>>,
}

struct Made {
    /// The reading it was made from.
    settings: Arc<Settings>,
    /// What was spent is counted by the day.
    day: u32,
    wired: Arc<Wired>,
}

impl Staff {
    /// The first agent brings the hands; what background processes say comes beside.
    pub(crate) fn new(
        live: Live,
        store: Store,
        clock: Arc<dyn Clock>,
        hands: Hands,
        logs: Arc<LaterLogs>,
    ) -> Self {
        Self { live, store, clock, hands, logs, courier: Arc::default(), made: Mutex::default() }
    }

    /// Who carries messages for the tools, to be told of the gateway.
    pub(crate) fn courier(&self) -> &LateCourier {
        &self.courier
    }

    fn wired(&self, wish: &Wish<'_>) -> Result<Arc<Wired>, String> {
        let settings = self.live.now();
        let day = local_time(self.clock.now()).day;
        let key = format!(
            "{} {:?} {:?} {:?} {:?} {:?}",
            wish.platform, wish.without, wish.model, wish.provider, wish.base_url, wish.toolsets
        );
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.get(&key)
            && Arc::ptr_eq(&known.settings, &settings)
            && known.day == day
        {
            return Ok(known.wired.clone());
        }
        let context = context(self.live.home(), &settings);
        let toolsets = wish.toolsets.map(|names| names.join(","));
        let arguments = ChatArguments { toolsets, ..ChatArguments::default() };
        let choice = Choice {
            model: wish.model.map(str::to_owned),
            provider: wish.provider.map(str::to_owned),
            base_url: wish.base_url.map(str::to_owned),
            ..Choice::default()
        };
        let order = Order {
            arguments: &arguments,
            platform: wish.platform,
            surface: Surface::Gateway,
            choice,
            hands: Some(self.hands.clone()),
            without: wish.without,
            logs: Logs::Later(self.logs.clone()),
            courier: Some(self.courier.clone()),
        };
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let wired = assemble(&order, &context, settings.config.clone(), store, clock, &Output::new())
            .map_err(|error| format!("{error:#}"))?;
        let wired = Arc::new(wired);
        // Older readings are of no more use.
        made.retain(|_, known| Arc::ptr_eq(&known.settings, &settings));
        made.insert(key, Made { settings, day, wired: wired.clone() });
        Ok(wired)
    }
}

impl Agents for Staff {
    fn agent(&self, wish: &Wish<'_>) -> Result<Agent, String> {
        let mut agent = self.wired(wish)?.agent_for_turn();
        let own = agent.asking.ephemeral.take();
        let texts: Vec<String> = own.into_iter().chain(wish.context.clone()).collect();
        agent.asking.ephemeral = (!texts.is_empty()).then(|| texts.join("\n\n"));
        Ok(agent)
    }

    fn place(&self, task: &TaskId, folder: &std::path::Path) {
        self.hands.folders.place(task, folder.to_owned());
    }
}

/// A context for one reading of the configuration.
pub(crate) fn context(home: &Home, settings: &Settings) -> Context {
    Context { home: home.clone(), env: settings.env.clone() }
}
