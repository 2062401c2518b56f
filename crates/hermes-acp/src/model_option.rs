//! The choice of a model in an editor, as an option of a session.

use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_client_protocol::v1::schema::{
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigOptionValue, SessionConfigSelectOption,
};

/// The id of the option.
pub(crate) const MODEL_OPTION: &str = "model";

/// A model that an editor offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditorModel {
    pub provider: String,
    pub model: String,
}

impl EditorModel {
    fn id(&self) -> String {
        format!("{}:{}", self.provider, self.model)
    }
}

/// The model of a session, and those it can have.
#[derive(Debug)]
pub(crate) struct ChosenModel(Mutex<ChosenModelState>);

#[derive(Debug)]
struct ChosenModelState {
    current: EditorModel,
    /// True once the user chose it; until then it follows the configuration.
    is_chosen: bool,
    offered: Vec<EditorModel>,
}

impl ChosenModel {
    pub(crate) fn new(current: EditorModel) -> Self {
        let offered = vec![current.clone()];
        Self(Mutex::new(ChosenModelState { current, is_chosen: false, offered }))
    }

    fn state(&self) -> MutexGuard<'_, ChosenModelState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the model that the user chose in the editor.
    pub(crate) fn chosen(&self) -> Option<EditorModel> {
        let state = self.state();
        state.is_chosen.then(|| state.current.clone())
    }

    /// Adds models to choose from.
    pub(crate) fn offer(&self, models: Vec<EditorModel>) {
        let mut state = self.state();
        for model in models {
            if !state.offered.contains(&model) {
                state.offered.push(model);
            }
        }
    }

    /// Chooses a model. Returns nothing if it is not offered.
    pub(crate) fn choose(&self, value: &SessionConfigOptionValue) -> Option<()> {
        let SessionConfigOptionValue::ValueId { value } = value else { return None };
        let mut state = self.state();
        let chosen = state.offered.iter().find(|model| model.id() == *value.0)?.clone();
        (state.current, state.is_chosen) = (chosen, true);
        Some(())
    }

    /// Describes the option for the editor.
    pub(crate) fn options(&self) -> Vec<SessionConfigOption> {
        let state = self.state();
        let option = |model: &EditorModel| {
            SessionConfigSelectOption::new(model.id(), model.model.clone())
                .description(model.provider.clone())
        };
        let offered: Vec<SessionConfigSelectOption> = state.offered.iter().map(option).collect();
        let select = SessionConfigOption::select(MODEL_OPTION, "Model", state.current.id(), offered);
        vec![select.category(SessionConfigOptionCategory::Model)]
    }
}
