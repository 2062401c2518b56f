mod injection;
mod redact;
mod url;
