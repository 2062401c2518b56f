//! Passes requests of chat platforms on: the paths belong to the channels, which also check the requests.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use hermes_types::{Clock, PlatformRequest, PlatformRequests};
use http_body_util::{BodyExt as _, Limited};

use super::BODY_TIMEOUT;

/// Where requests of platforms go.
#[derive(Clone)]
pub(super) struct PlatformPassage {
    pub(super) platforms: Arc<dyn PlatformRequests>,
    pub(super) clock: Arc<dyn Clock>,
}

/// Answers a request for a platform; every other one is for the routes.
pub(super) async fn pass_to_platforms(
    State(passage): State<PlatformPassage>,
    request: Request,
    next: Next,
) -> Response {
    let Some(limit) = passage.platforms.body_limit(request.uri().path()) else {
        return next.run(request).await;
    };
    match passage.read(request, limit).await {
        Ok(request) => {
            let answer = passage.platforms.answer(request).await;
            let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut response = Response::new(Body::from(answer.body));
            *response.status_mut() = status;
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
            response
        }
        Err(status) => status.into_response(),
    }
}

impl PlatformPassage {
    async fn read(&self, request: Request, limit: usize) -> Result<PlatformRequest, StatusCode> {
        let (head, body) = request.into_parts();
        let body = tokio::select! {
            read = Limited::new(body, limit).collect() => read.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?,
            () = self.clock.sleep(BODY_TIMEOUT) => return Err(StatusCode::REQUEST_TIMEOUT),
        };
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        Ok(PlatformRequest {
            method: head.method.as_str().to_owned(),
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: head
                .headers
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), text(value)))
                .collect(),
            body: body.to_bytes().to_vec(),
        })
    }
}
