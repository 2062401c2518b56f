//! Questions that need several pages of the web.
//!
//! The answer counts most; using the web, few turns and several sources count, too.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

use hermes_types::BoxFuture;
use serde_json::{Map, Value, json};

use super::super::definition::{JudgedRollout, TrainingEnvironment, ratio};
use super::super::item_list::ItemList;
use super::super::settings::EnvironmentSettings;

/// Questions with their answers, where no dataset is given.
const QUESTIONS: [(&str, &str); 10] = [
    (
        "Which river flows through the capital of the country in which the composer Béla Bartók died?",
        "The Potomac: he died in the United States, whose capital is Washington",
    ),
    (
        "In which year was the university founded at which the inventor of the World Wide Web studied physics?",
        "Oxford; teaching there began by 1096",
    ),
    (
        "What is the chemical symbol of the element that is named after the home country of Marie Curie?",
        "Po, polonium",
    ),
    (
        "Which mountain is higher: the highest one of Japan or the highest one of Spain?",
        "Mount Fuji, 3776 m, is higher than Teide, 3715 m",
    ),
    (
        "How many years lie between the first flight of the Wright brothers and the first landing on the Moon?",
        "66 years, from 1903 to 1969",
    ),
    (
        "What is the official language of the country with the largest area in South America?",
        "Portuguese, in Brazil",
    ),
    ("Who was the monarch of the United Kingdom when the Suez Canal was opened?", "Queen Victoria, in 1869"),
    ("In which ocean is the island on which Napoleon died?", "The Atlantic Ocean; Saint Helena"),
    ("Which planet has the moon that Giovanni Cassini discovered in 1671?", "Saturn; Iapetus"),
    ("Which programming language did the designer of Oberon publish in 1970?", "Pascal, by Niklaus Wirth"),
];
/// The tools that count as using the web.
const WEB_TOOLS: [&str; 4] = ["web_search", "web_extract", "browser_navigate", "web_crawl"];
/// The evaluation takes so many items at most.
const EVALUATED: usize = 50;

/// The environment `web-research`.
#[derive(Debug, Default)]
pub(super) struct WebResearch {
    items: OnceLock<ItemList>,
}

/// What few turns are worth.
fn efficiency(turns: usize) -> f64 {
    let over = ratio(1.0, 1) * f64::from(u32::try_from(turns).unwrap_or(u32::MAX)) - 5.0;
    match turns {
        0..=5 => 1.0,
        6..=10 => 1.0 - 0.08 * over,
        _ => (1.0 - 0.12 * over).max(0.0),
    }
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() > 2);
    words.map(str::to_lowercase).collect()
}

/// Compares an answer with the expected one by their words.
fn likeness(answer: &str, expected: &str) -> f64 {
    let (given, wanted) = (words(answer), words(expected));
    if given.is_empty() || wanted.is_empty() {
        return 0.0;
    }
    let common: f64 = given.intersection(&wanted).map(|_| 1.0).sum();
    0.4 * ratio(common, given.union(&wanted).count()) + 0.6 * ratio(common, wanted.len())
}

/// Reads the score a judge gave, from 0 to 1.
fn judged(text: &str) -> Option<f64> {
    let (from, to) = (text.find('{')?, text.rfind('}')?);
    let verdict: Value = serde_json::from_str(text.get(from..=to)?).ok()?;
    verdict.get("score")?.as_f64().filter(|score| (0.0..=1.0).contains(score))
}

/// Returns the hosts that an answer cites.
fn cited(text: &str) -> usize {
    let hosts = text.split("://").skip(1).filter_map(|rest| {
        let host = rest.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))).next()?;
        let host = host.trim_end_matches('.').trim_start_matches("www.").to_lowercase();
        host.contains('.').then_some(host)
    });
    hosts.collect::<BTreeSet<String>>().len()
}

impl TrainingEnvironment for WebResearch {
    fn name(&self) -> &'static str {
        "web-research"
    }

    fn defaults(&self) -> Map<String, Value> {
        let changes = json!({"enabled_toolsets": ["web"], "max_agent_turns": 15, "prompt_field": "question"});
        changes.as_object().cloned().unwrap_or_default()
    }

    fn set_up<'a>(&'a self, settings: &'a EnvironmentSettings) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let items = if let Some(name) = &settings.dataset_name {
                let read = ItemList::read(Path::new(name))?;
                let text = |item: &Value, names: &[&str]| {
                    names.iter().find_map(|name| item.get(*name)?.as_str()).map(str::to_owned)
                };
                let named = [settings.prompt_field.as_str(), "question", "Prompt", "prompt"];
                let items = read.all().iter().enumerate().map(|(at, item)| {
                    let question = text(item, &named);
                    let answer = text(item, &["answer", "Answer"]);
                    let (Some(question), Some(answer)) = (question, answer) else {
                        return Err(format!("{name}: item {at} needs a question and an answer"));
                    };
                    Ok(json!({"question": question, "answer": answer}))
                });
                ItemList::new(items.collect::<Result<_, _>>()?)
            } else {
                let all = QUESTIONS.iter();
                let all = all.map(|(question, answer)| json!({"question": question, "answer": answer}));
                ItemList::new(all.collect())
            };
            // A second set-up changes nothing.
            let _ = self.items.set(items);
            Ok(())
        })
    }

    fn next_item(&self) -> BoxFuture<'_, Result<Option<Value>, String>> {
        Box::pin(std::future::ready(Ok(self.items.get().and_then(ItemList::next))))
    }

    fn prompt<'a>(&'a self, item: &'a Value) -> BoxFuture<'a, Result<String, String>> {
        let question = item.get("question").and_then(Value::as_str).unwrap_or_default();
        let prompt = format!(
            "Answer this question. Search the web, check what you find in more than one source, and name the addresses of your \
             sources in the answer.\n\n{question}"
        );
        Box::pin(std::future::ready(Ok(prompt)))
    }

    fn reward<'a>(&'a self, rollout: &'a JudgedRollout<'a>) -> BoxFuture<'a, Result<f64, String>> {
        Box::pin(async move {
            let text = |name: &str| rollout.item.get(name).and_then(Value::as_str).unwrap_or_default();
            let (question, expected, answer) =
                (text("question"), text("answer"), rollout.result.last_answer());
            let ask = format!(
                "How well does this answer agree with the expected one? Answer with JSON only: {{\"score\": S}}, where S is from 0 \
                 (wrong) to 1 (right).\n\nQuestion: {question}\n\nExpected: {expected}\n\nAnswer: {answer}"
            );
            let verdict =
                if answer.is_empty() { None } else { rollout.judge.ask(&ask, rollout.cancel).await };
            let correct = verdict.as_deref().and_then(judged).unwrap_or_else(|| likeness(answer, expected));
            let used = rollout.result.called_tools().iter().any(|tool| WEB_TOOLS.contains(tool));
            let mut reward = 0.6 * correct + 0.2 * efficiency(rollout.result.turns_used);
            if used {
                reward += 0.2;
            }
            if cited(answer) >= 2 {
                reward += 0.1;
            }
            Ok(reward.clamp(0.0, 1.0))
        })
    }

    fn evaluation_items(&self) -> BoxFuture<'_, Result<Vec<Value>, String>> {
        let items = self.items.get().map(|items| items.all().iter().take(EVALUATED).cloned().collect());
        Box::pin(std::future::ready(Ok(items.unwrap_or_default())))
    }

    fn state(&self) -> Value {
        self.items.get().map_or(Value::Null, ItemList::state)
    }

    fn restore(&self, state: &Value) {
        if let Some(items) = self.items.get() {
            items.restore(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_turns_are_worth_more() {
        let near =
            |turns: usize, expected: f64| assert!((efficiency(turns) - expected).abs() < 1e-9, "{turns}");
        for (turns, value) in [(1, 1.0), (5, 1.0), (6, 0.92), (10, 0.6), (11, 0.28), (13, 0.04), (14, 0.0)] {
            near(turns, value);
        }
    }

    #[test]
    fn answers_are_compared_by_their_words() {
        assert!((likeness("Saturn; Iapetus", "Saturn; Iapetus") - 1.0).abs() < 1e-9);
        assert!(likeness("It is Saturn, I think", "Saturn; Iapetus") > 0.3);
        assert!(likeness("", "Saturn") < 1e-9 && likeness("Mars", "Saturn") < 1e-9);
        assert_eq!(judged("I say {\"score\": 0.5}."), Some(0.5));
        assert_eq!([judged("0.5"), judged("{\"score\": 7}"), judged("}{")], [None, None, None]);
        assert_eq!(cited("https://www.a.org/x and (http://b.org) and https://a.org"), 2);
    }
}
