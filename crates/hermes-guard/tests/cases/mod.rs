mod redact;
mod url;
