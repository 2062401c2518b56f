mod command;
mod injection;
mod redact;
mod url;
