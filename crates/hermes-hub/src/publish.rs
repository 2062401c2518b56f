//! Offers a skill of this home to a repository, as a pull request.

use std::path::Path;

use data_encoding::BASE64;
use hermes_guard::{SkillTrust, SkillVerdict, decide_installation};
use hermes_knowledge::{read_tree, scan_folder, skill_header};
use hermes_net::{HttpRequest, Method, Url};
use serde_json::{Value, json};

use crate::Error;
use crate::http::{SkillHub, check_github, encoded};
use crate::source::{check_name, checked, text_of};

const JSON: &str = "application/vnd.github.v3+json";
const MAX_ANSWER: usize = 1024 * 1024;

impl SkillHub {
    /// Makes a pull request with the skill in a folder. Returns its address.
    pub async fn publish(&self, folder: &Path, repository: &str) -> Result<String, Error> {
        let files = checked(read_tree(folder).map_err(Error::io(folder))?)?;
        let text = files.iter().find(|file| file.path == "SKILL.md");
        let text = text.ok_or_else(|| Error::Invalid(format!("{} has no SKILL.md", folder.display())))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        check_name(&name)?;
        let (_, description) = skill_header(&String::from_utf8_lossy(&text.bytes));
        let Some(description) = description else {
            return Err(Error::Invalid("the skill needs a description before it is published".to_owned()));
        };
        let scan = scan_folder(folder).map_err(Error::io(folder))?;
        if scan.verdict == SkillVerdict::Dangerous {
            let trust = SkillTrust::Community;
            let decision = decide_installation(
                trust,
                scan.verdict,
                scan.findings.len(),
                hermes_guard::PolicyOverride::None,
            );
            return Err(Error::Invalid(format!(
                "a skill that the scanner finds dangerous is not published\n{}",
                scan.report(&name, "publish", trust, &decision)
            )));
        }
        let login = text_of(&self.call(Method::GET, "/user", None).await?, &["login"]).to_owned();
        if login.is_empty() {
            return Err(Error::Invalid(
                "publishing needs a GitHub token: set GITHUB_TOKEN in the home's .env".to_owned(),
            ));
        }
        let about = self.call(Method::GET, &format!("/repos/{repository}"), None).await?;
        let base = match text_of(&about, &["default_branch"]) {
            "" => "main".to_owned(),
            branch => branch.to_owned(),
        };
        let fork = self.call(Method::POST, &format!("/repos/{repository}/forks"), Some(json!({}))).await?;
        let fork = match text_of(&fork, &["full_name"]) {
            "" => format!("{login}/{}", repository.rsplit('/').next().unwrap_or_default()),
            fork => fork.to_owned(),
        };
        let head =
            self.call(Method::GET, &format!("/repos/{fork}/git/ref/heads/{}", encoded(&base)), None).await?;
        let sha = head.pointer("/object/sha").and_then(Value::as_str).unwrap_or_default();
        let branch = format!("add-skill-{name}");
        let reference = json!({"ref": format!("refs/heads/{branch}"), "sha": sha});
        self.call(Method::POST, &format!("/repos/{fork}/git/refs"), Some(reference)).await?;
        for file in &files {
            let path = format!("/repos/{fork}/contents/skills/{name}/{}", encoded(&file.path));
            let body = json!({
                "message": format!("Add skill: {name} ({})", file.path),
                "content": BASE64.encode(&file.bytes),
                "branch": branch,
            });
            self.call(Method::PUT, &path, Some(body)).await?;
        }
        let request = json!({
            "title": format!("Add skill: {name}"),
            "head": format!("{login}:{branch}"),
            "base": base,
            "body": description,
        });
        let made = self.call(Method::POST, &format!("/repos/{repository}/pulls"), Some(request)).await?;
        Ok(text_of(&made, &["html_url"]).to_owned())
    }

    /// Calls GitHub and returns what it answers.
    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, Error> {
        let url = Url::parse(&format!("{}{path}", self.client.addresses.github))
            .map_err(|_| hermes_net::Error::InvalidUrl)?;
        let mut request = self.client.github_request(HttpRequest::new(method, url), JSON).await?;
        if let Some(body) = &body {
            request = request.json(body)?;
        }
        let response = self.client.send(request).await?;
        match check_github(&response)? {
            200..=299 => Ok(response.json(MAX_ANSWER).await?),
            401 | 403 => Err(Error::Invalid(
                "GitHub refused it: publishing needs a token that may write to your repositories".to_owned(),
            )),
            status => Err(Error::Status { what: format!("GitHub ({path})"), status }),
        }
    }
}
