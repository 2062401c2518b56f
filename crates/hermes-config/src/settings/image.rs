//! The settings for making pictures.

use hermes_types::Secret;

use crate::{Config, Env};

/// Who makes pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageProvider {
    Fal,
    /// OpenAI, or a server with its images endpoint.
    OpenAi,
}

/// The `image_gen` section, with the keys of the services.
#[derive(Debug, Clone)]
pub struct ImageSettings {
    /// The provider, or what to configure so that there is one.
    pub provider: Result<ImageProvider, String>,
    pub fal_key: Option<Secret>,
    pub base_url: String,
    pub model: String,
    pub key: Option<Secret>,
}

const OPENAI_URL: &str = "https://api.openai.com/v1";

impl ImageSettings {
    pub fn resolve(config: &Config, env: &Env) -> Self {
        let own_url = config.non_empty_text("image_gen.base_url");
        let own_key = config.non_empty_text("image_gen.api_key").map(Secret::new);
        // The key of OpenAI's own endpoint goes nowhere else.
        let general_key = env.get("OPENAI_API_KEY").filter(|_| own_url.is_none()).map(Secret::new);
        let key = own_key.or(general_key);
        let fal_key = env.get("FAL_KEY").map(Secret::new);
        let named = config.non_empty_text("image_gen.provider");
        let provider = match named.as_deref() {
            Some("fal") if fal_key.is_none() => {
                Err("image_gen.provider is fal, but FAL_KEY is not set".to_owned())
            }
            Some("fal") => Ok(ImageProvider::Fal),
            Some("openai") if key.is_none() && own_url.is_none() => {
                Err("image_gen.provider is openai, but neither OPENAI_API_KEY nor image_gen.base_url is set"
                    .to_owned())
            }
            Some("openai") => Ok(ImageProvider::OpenAi),
            Some(other) => Err(format!("image_gen.provider: '{other}' is none of fal, openai")),
            None if fal_key.is_some() => Ok(ImageProvider::Fal),
            None if own_url.is_some() => Ok(ImageProvider::OpenAi),
            None => {
                Err("no service for pictures is configured: store FAL_KEY, or set image_gen.provider"
                    .to_owned())
            }
        };
        Self {
            provider,
            fal_key,
            base_url: own_url
                .map_or_else(|| OPENAI_URL.to_owned(), |url| url.trim_end_matches('/').to_owned()),
            model: config.non_empty_text("image_gen.model").unwrap_or_else(|| "gpt-image-1".to_owned()),
            key,
        }
    }
}
