//! The text of a launch agent. Pure.

use std::path::Path;

/// The inputs of a launch agent.
#[derive(Debug)]
pub(crate) struct LaunchAgent<'a> {
    pub(crate) label: &'a str,
    pub(crate) binary: &'a Path,
    pub(crate) home: &'a Path,
    pub(crate) search_path: &'a str,
}

impl LaunchAgent<'_> {
    pub(crate) fn text(&self) -> String {
        let home = self.home.to_string_lossy();
        let binary = string(&self.binary.to_string_lossy());
        format!(
            r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
    <key>Label</key>
    {label}
    <key>ProgramArguments</key>
    <array>
        {binary}
        <string>gateway</string>
        <string>run</string>
        <string>--replace</string>
    </array>
    <key>WorkingDirectory</key>
    {home}
    <key>EnvironmentVariables</key>
    <dict>
        <key>PATH</key>
        {search_path}
        <key>HERMES_HOME</key>
        {home}
    </dict>
    <key>RunAtLoad</key>
    <true/>
    <key>KeepAlive</key>
    <dict>
        <key>SuccessfulExit</key>
        <false/>
    </dict>
    <key>StandardOutPath</key>
    {log}
    <key>StandardErrorPath</key>
    {errors}
</dict>
</plist>
"#,
            label = string(self.label),
            home = string(&home),
            search_path = string(self.search_path),
            log = string(&format!("{home}/logs/gateway.log")),
            errors = string(&format!("{home}/logs/gateway.error.log")),
        )
    }
}

/// Returns the `PATH` of an agent.
pub(crate) fn path_in(text: &str) -> Option<String> {
    let after = text.split_once("<key>PATH</key>")?.1;
    let value = after.split_once("<string>")?.1.split_once("</string>")?.0;
    Some(value.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
}

fn string(text: &str) -> String {
    format!("<string>{}</string>", text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent() {
        let agent = LaunchAgent {
            label: "ai.hermes.gateway",
            binary: Path::new("/opt/hermes/bin/hermes"),
            home: Path::new("/Users/u/R&D/.hermes"),
            search_path: "/opt/hermes/bin:/usr/bin:/bin",
        };
        let text = agent.text();
        assert_eq!(path_in(&text).as_deref(), Some("/opt/hermes/bin:/usr/bin:/bin"));
        insta::assert_snapshot!(text, @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
        <plist version="1.0">
        <dict>
            <key>Label</key>
            <string>ai.hermes.gateway</string>
            <key>ProgramArguments</key>
            <array>
                <string>/opt/hermes/bin/hermes</string>
                <string>gateway</string>
                <string>run</string>
                <string>--replace</string>
            </array>
            <key>WorkingDirectory</key>
            <string>/Users/u/R&amp;D/.hermes</string>
            <key>EnvironmentVariables</key>
            <dict>
                <key>PATH</key>
                <string>/opt/hermes/bin:/usr/bin:/bin</string>
                <key>HERMES_HOME</key>
                <string>/Users/u/R&amp;D/.hermes</string>
            </dict>
            <key>RunAtLoad</key>
            <true/>
            <key>KeepAlive</key>
            <dict>
                <key>SuccessfulExit</key>
                <false/>
            </dict>
            <key>StandardOutPath</key>
            <string>/Users/u/R&amp;D/.hermes/logs/gateway.log</string>
            <key>StandardErrorPath</key>
            <string>/Users/u/R&amp;D/.hermes/logs/gateway.error.log</string>
        </dict>
        </plist>
        "#);
    }
}
