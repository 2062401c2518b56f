//! Vectors for texts, from any endpoint with the `/embeddings` of the OpenAI API.

use hermes_types::{BoxFuture, EmbeddingError, Secret, TextEmbedder};
use serde_json::{Value, json};

use crate::client::{EngineAccess, EngineClient, KeyHeader};

/// The longest text that is sent, in bytes.
const LONGEST_TEXT: usize = 4_000;
/// The most numbers of a vector.
const MOST_DIMENSIONS: usize = 8_192;

/// Which endpoint computes vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingOptions {
    /// The address before `/embeddings`.
    pub base_url: String,
    pub key: Option<Secret>,
    /// The variable of the key, for errors.
    pub variable: &'static str,
    pub model: String,
    /// The length of the vectors, where the model has several.
    pub dimensions: Option<usize>,
}

/// An endpoint that computes vectors.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct EmbeddingsEndpoint {
    client: EngineClient,
    options: EmbeddingOptions,
}

impl EmbeddingsEndpoint {
    pub fn new(options: EmbeddingOptions, access: &EngineAccess) -> Result<Self, String> {
        let key = options.key.clone().map(|key| (KeyHeader::Bearer, key));
        let client =
            EngineClient::new(access, "the embeddings endpoint", options.variable, &options.base_url, key)?;
        Ok(Self { client, options })
    }

    async fn request(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        let wanted = texts.len();
        let input: Vec<&str> = texts.iter().map(|text| hermes_text::head(text, LONGEST_TEXT)).collect();
        let mut body = json!({"model": self.options.model, "input": input, "encoding_format": "float"});
        if let Some(dimensions) = self.options.dimensions {
            body["dimensions"] = json!(dimensions);
        }
        let answer = self.client.post(&["embeddings"], &body).await;
        let answer = answer.map_err(|error| EmbeddingError(error.to_string()))?;
        read(&answer, wanted).ok_or_else(|| {
            EmbeddingError(
                "the embeddings endpoint answered with something that is no list of vectors".to_owned(),
            )
        })
    }
}

impl TextEmbedder for EmbeddingsEndpoint {
    fn model(&self) -> &str {
        &self.options.model
    }

    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, EmbeddingError>> {
        Box::pin(self.request(texts))
    }
}

/// Reads the vectors in the order of the texts: one for each, all of the same length.
fn read(answer: &Value, wanted: usize) -> Option<Vec<Vec<f32>>> {
    let rows = answer.get("data")?.as_array()?;
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; wanted];
    for (place, row) in rows.iter().enumerate() {
        let at = row.get("index").and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok());
        let numbers = row.get("embedding")?.as_array()?;
        if numbers.is_empty() || numbers.len() > MOST_DIMENSIONS {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the precision of f32 is enough")]
        let vector: Option<Vec<f32>> = numbers
            .iter()
            .map(|number| number.as_f64().map(|n| n as f32).filter(|n| n.is_finite()))
            .collect();
        *vectors.get_mut(at.unwrap_or(place))? = Some(vector?);
    }
    let vectors: Vec<Vec<f32>> = vectors.into_iter().collect::<Option<_>>()?;
    let length = vectors.first().map(Vec::len)?;
    vectors.iter().all(|vector| vector.len() == length).then_some(vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_lists_are_read() {
        let check = |answer: Value, count: usize, found: Option<usize>| {
            assert_eq!(read(&answer, count).map(|vectors| vectors.len()), found, "{answer}");
        };
        let row = |at: u64, vector: Value| json!({"index": at, "embedding": vector});
        check(json!({"data": [row(1, json!([1, 2])), row(0, json!([3, 4]))]}), 2, Some(2));
        check(json!({"data": [row(0, json!([1, 2]))]}), 2, None);
        check(json!({"data": [row(0, json!([1, 2])), row(1, json!([1]))]}), 2, None);
        check(json!({"data": [row(0, json!(["x"]))]}), 1, None);
        check(json!({"data": [row(7, json!([1]))]}), 1, None);
        check(json!({"error": "no"}), 1, None);
    }
}
