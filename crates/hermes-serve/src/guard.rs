//! The checks of every request: origin, key, size.

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, ORIGIN, VARY};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use std::time::Duration;
use subtle::ConstantTimeEq as _;

use crate::app::App;
use crate::error::ApiError;

/// The time a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const METHODS: &str = "GET, POST, PATCH, DELETE, OPTIONS";
const HEADERS: &str = "Authorization, Content-Type, Idempotency-Key";

/// Checks the origin, then the key, and adds the CORS headers to the response.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(ORIGIN).cloned();
    let allowed = match &origin {
        Some(origin) => match allowed_origin(origin, &app.settings.cors_origins) {
            Some(allowed) => Some(allowed),
            None => return with_cors_headers(StatusCode::FORBIDDEN.into_response(), None),
        },
        None => None,
    };
    if request.method() == Method::OPTIONS {
        let status = if allowed.is_some() { StatusCode::OK } else { StatusCode::FORBIDDEN };
        let asked = request.headers().get("access-control-request-headers").cloned();
        let mut response = with_cors_headers(status.into_response(), allowed);
        if let Some(asked) = asked.filter(|_| status == StatusCode::OK) {
            response.headers_mut().insert("access-control-allow-headers", asked);
        }
        return response;
    }
    if !is_public_path(request.uri().path()) && !has_key(request.headers(), &app) {
        tracing::warn!(path = request.uri().path(), "a request without the right key was refused");
        return with_cors_headers(
            ApiError::new(StatusCode::UNAUTHORIZED, "invalid_api_key", "Invalid API key").into_response(),
            allowed,
        );
    }
    with_cors_headers(next.run(request).await, allowed)
}

fn is_public_path(path: &str) -> bool {
    matches!(path, "/health" | "/v1/health")
}

fn has_key(headers: &HeaderMap, app: &App) -> bool {
    let Some(key) = &app.settings.key else { return false };
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = given.and_then(|text| {
        text.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("bearer ")).and(text.get(7..))
    });
    token.is_some_and(|token| token.trim().as_bytes().ct_eq(key.expose().as_bytes()).into())
}

/// Returns the value of `Access-Control-Allow-Origin`, if the origin is allowed.
fn allowed_origin(origin: &HeaderValue, allowed: &[String]) -> Option<HeaderValue> {
    if allowed.iter().any(|one| one == "*") {
        return Some(HeaderValue::from_static("*"));
    }
    let text = origin.to_str().ok()?;
    allowed.iter().any(|one| one.trim_end_matches('/') == text).then(|| origin.clone())
}

fn with_cors_headers(mut response: Response, origin: Option<HeaderValue>) -> Response {
    let headers = response.headers_mut();
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("referrer-policy", HeaderValue::from_static("no-referrer"));
    if let Some(origin) = origin {
        if origin != "*" {
            headers.insert(VARY, HeaderValue::from_static("Origin"));
        }
        headers.insert("access-control-allow-origin", origin);
        headers.insert("access-control-allow-methods", HeaderValue::from_static(METHODS));
        headers.insert("access-control-allow-headers", HeaderValue::from_static(HEADERS));
        headers.insert("access-control-max-age", HeaderValue::from_static("600"));
    }
    response
}

/// Reads the whole body, within its size limit and time limit.
pub(crate) async fn read_body(app: &App, headers: &HeaderMap, body: Body) -> Result<Bytes, ApiError> {
    let most = app.settings.max_image_body_bytes;
    let limit = app.settings.max_body_bytes;
    let too_large = || {
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            format!("The body is larger than {limit} bytes, or {most} with pictures"),
        )
    };
    if let Some(length) = headers.get(CONTENT_LENGTH) {
        let length = length.to_str().ok().and_then(|text| text.trim().parse::<usize>().ok());
        let Some(length) = length else {
            return Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                "invalid_content_length",
                "Content-Length must be a number",
            ));
        };
        if length > most {
            return Err(too_large());
        }
    }
    let reading = Limited::new(body, most).collect();
    let read = tokio::select! {
        read = reading => read,
        () = app.clock.sleep(BODY_TIMEOUT) => {
            return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", "The body took too long to arrive"));
        }
    };
    match read {
        Ok(collected) => {
            let bytes = collected.to_bytes();
            if bytes.len() > limit && !holds_image(&bytes) { Err(too_large()) } else { Ok(bytes) }
        }
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => Err(too_large()),
        Err(error) => Err(ApiError::invalid_field("body", format!("The body could not be read: {error}"))),
    }
}

fn holds_image(body: &Bytes) -> bool {
    const MARK: &[u8] = b"data:image/";
    body.windows(MARK.len()).any(|window| window == MARK)
}
