use std::sync::Mutex;

use hermes_tools::ClarifyTool;
use hermes_types::{BoxFuture, Cancel, Frontend, TurnEvent, UserAnswer, UserQuestion};
use serde_json::json;

use super::support::{UnattendedUser, parse, run};

/// A user who records the questions.
struct Person(Mutex<Vec<UserQuestion>>);

impl Frontend for Person {
    fn show(&self, _: TurnEvent) {}

    fn ask<'a>(&'a self, question: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        self.0.lock().unwrap().push(question);
        Box::pin(std::future::ready(UserAnswer::Text("the blue one".to_owned())))
    }
}

#[test]
fn the_user_is_asked() {
    let person = Person(Mutex::default());
    let tool = ClarifyTool::new();
    let ask = |arguments| parse(&run(&tool, "t", arguments, &person));
    let answer = ask(json!({"question": " Which? ", "choices": ["a", " ", "b", "c", "d", "e"]}));
    assert_eq!(
        answer,
        json!({"question": "Which?", "choices_offered": ["a", "b", "c", "d"], "user_response": "the blue one"})
    );
    assert_eq!(ask(json!({"question": "Why?", "choices": []}))["choices_offered"], json!(null));
    assert!(ask(json!({"choices": ["a"]}))["error"].as_str().unwrap().contains("`question`"));
    let asked = person.0.lock().unwrap();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1], UserQuestion::Clarify { question: "Why?".to_owned(), choices: Vec::new() });
}

#[test]
fn without_a_user_the_model_decides() {
    let answer = parse(&run(&ClarifyTool::new(), "t", json!({"question": "Which?"}), &UnattendedUser));
    assert_eq!(answer["error"], "Clarify tool is not available in this execution context.");
    assert!(answer["user_response"].as_str().unwrap().contains("Decide yourself"));
}
