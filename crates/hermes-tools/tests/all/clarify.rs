use std::sync::Mutex;

use hermes_tools::Clarify;
use hermes_types::{Answer, BoxFuture, Cancel, Event, Frontend, Question};
use serde_json::json;

use super::support::{Nobody, parse, run};

/// A user who remembers what was asked.
struct Person(Mutex<Vec<Question>>);

impl Frontend for Person {
    fn show(&self, _: Event) {}

    fn ask<'a>(&'a self, question: Question, _: &'a Cancel) -> BoxFuture<'a, Answer> {
        self.0.lock().unwrap().push(question);
        Box::pin(std::future::ready(Answer::Text("the blue one".to_owned())))
    }
}

#[test]
fn the_user_is_asked() {
    let person = Person(Mutex::default());
    let tool = Clarify::new();
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
    assert_eq!(asked[1], Question::Clarify { question: "Why?".to_owned(), choices: Vec::new() });
}

#[test]
fn without_a_user_the_model_decides() {
    let answer = parse(&run(&Clarify::new(), "t", json!({"question": "Which?"}), &Nobody));
    assert_eq!(answer["error"], "Clarify tool is not available in this execution context.");
    assert!(answer["user_response"].as_str().unwrap().contains("Decide yourself"));
}
