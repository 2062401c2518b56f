//! Chooses how Modal is reached: through the user's own account, or through the gateway that manages sandboxes.
//!
//! Starts no process and makes no request. Whether a Python with Modal's package exists turns out at the first
//! command.

use std::path::PathBuf;
use std::sync::Arc;

use hermes_config::auth::AuthFile;
use hermes_config::settings::ModalMode;
use hermes_exec::{
    Backend, ModalAccount, ModalDirectBackend, ModalGateway, ModalGatewayBackend, ModalOptions, OutputBounds,
    PythonSearch, Variables,
};
use hermes_types::Secret;

use super::backends::BackendBuilder;

const TOKENS: [&str; 2] = ["MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"];

impl BackendBuilder<'_> {
    /// Returns the backend `terminal.modal_mode` names. By default it is the gateway if there is one, else the
    /// account.
    pub(super) fn modal(&self) -> Result<Arc<dyn Backend>, String> {
        let for_gateway = |lacks| format!("the modal backend in managed mode needs {lacks}");
        let for_account = |lacks| format!("the modal backend in direct mode needs {lacks}");
        match self.settings.modal_mode {
            ModalMode::Managed => self.modal_gateway().map_err(for_gateway),
            ModalMode::Direct => self.modal_account().map_err(for_account),
            ModalMode::Auto => self.modal_gateway().or_else(|gateway| {
                self.modal_account().map_err(|account| {
                    format!("the modal backend needs {account}; or, to use a gateway, {gateway}")
                })
            }),
        }
    }

    fn modal_gateway(&self) -> Result<Arc<dyn Backend>, String> {
        let Some(address) = self.context.env.get("MODAL_GATEWAY_URL") else {
            return Err("MODAL_GATEWAY_URL, the address of the gateway that manages its sandboxes".to_owned());
        };
        let Some(token) = self.gateway_token() else {
            return Err("a sign-in with Nous, or TOOL_GATEWAY_USER_TOKEN".to_owned());
        };
        let gateway = ModalGateway::new(self.client()?, address, token, self.clock.clone());
        Ok(Arc::new(ModalGatewayBackend { gateway, options: self.modal_options() }))
    }

    fn modal_account(&self) -> Result<Arc<dyn Backend>, String> {
        self.find_modal_tokens()?;
        let (context, names) = (self.context, TOKENS.map(str::to_owned));
        let pythons = PythonSearch { configured: self.python.as_deref(), hermes_home: context.home.path() };
        let variables = Variables::for_commands(context.env.iter(), &names, &[]);
        let account =
            ModalAccount::new(pythons, variables, context.home.modal_snapshots(), self.clock.clone());
        Ok(Arc::new(ModalDirectBackend { account, options: self.modal_options() }))
    }

    /// Checks for the credentials the account's package would find: the tokens themselves, or their file.
    fn find_modal_tokens(&self) -> Result<(), String> {
        let env = &self.context.env;
        match TOKENS.map(|name| env.get(name)) {
            [Some(_), Some(_)] => Ok(()),
            [Some(_), None] => Err("MODAL_TOKEN_SECRET beside MODAL_TOKEN_ID".to_owned()),
            [None, Some(_)] => Err("MODAL_TOKEN_ID beside MODAL_TOKEN_SECRET".to_owned()),
            [None, None] => {
                let named = env.get("MODAL_CONFIG_PATH").map(PathBuf::from);
                let file = named.unwrap_or_else(|| self.expanded("~/.modal.toml"));
                if file.is_file() {
                    return Ok(());
                }
                Err(format!(
                    "MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or {}, which `modal token new` writes",
                    file.display()
                ))
            }
        }
    }

    fn modal_options(&self) -> ModalOptions {
        let settings = self.settings;
        ModalOptions {
            task: String::new(),
            image: settings.modal_image.clone(),
            directory: settings.cwd.clone(),
            exports: self.exports(&settings.docker_forward_env),
            limits: self.limits(),
            retention: self.retention(),
            idle: settings.lifetime,
            bounds: OutputBounds::default(),
        }
    }

    fn gateway_token(&self) -> Option<Secret> {
        if let Some(token) = self.context.env.get("TOOL_GATEWAY_USER_TOKEN") {
            return Some(Secret::new(token));
        }
        let known = AuthFile::new(&self.context.home).read();
        known.provider("nous")?.get("access_token")?.as_str().map(Secret::new)
    }
}
