//! Memory services, against emulators of them.

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests start programs that judge")]
mod all {
    mod engines;
    mod failures;
    mod honcho;
    mod peers;
    mod support;
}
