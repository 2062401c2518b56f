mod command;
mod injection;
mod redact;
mod skill;
mod url;
