//! The ranking of matches: texts with more occurrences for their length come first, newer ones before older.
//!
//! It does no I/O. The formula is BM25 with word frequencies taken from the candidates themselves.

/// The number of characters of a message that are weighed; a match further on still counts, as one occurrence.
pub(crate) const WEIGHED_CHARS: usize = 4000;

/// The saturation of repeated words: the `k1` of BM25.
const SATURATION: f64 = 1.2;
/// The penalty for long texts: the `b` of BM25.
const LENGTH_WEIGHT: f64 = 0.75;

/// A match; candidates are ordered newest first.
pub(crate) struct Candidate {
    pub(crate) id: i64,
    pub(crate) text: String,
}

/// Returns the ids of the best candidates, best first.
pub(crate) fn rank(candidates: Vec<Candidate>, words: &[String], limit: usize) -> Vec<i64> {
    let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let counted: Vec<(i64, usize, Vec<usize>)> = candidates
        .into_iter()
        .map(|candidate| {
            let text = lower(candidate.text);
            // Every candidate matched, so a word that is not found here occurs further on or is written with
            // accents.
            let counts = words.iter().map(|word| text.matches(word.as_str()).count().max(1)).collect();
            (candidate.id, text.len(), counts)
        })
        .collect();
    let average = mean(counted.iter().map(|(_, length, _)| *length));
    let weights: Vec<f64> = (0..words.len()).map(|word| rarity(&counted, word)).collect();
    let mut scored: Vec<(f64, i64)> = counted
        .iter()
        .map(|(id, length, counts)| {
            let stretch = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * decimal(*length) / average.max(1.0);
            let score = counts.iter().zip(&weights).map(|(count, weight)| {
                let count = decimal(*count);
                weight * count * (SATURATION + 1.0) / (count + SATURATION * stretch)
            });
            (score.sum(), *id)
        })
        .collect();
    scored.sort_by(|(a, newer), (b, older)| b.total_cmp(a).then(older.cmp(newer)));
    scored.into_iter().take(limit).map(|(_, id)| id).collect()
}

/// Lower-cases a text. Most text is ASCII, which can be changed in place.
fn lower(mut text: String) -> String {
    if text.is_ascii() {
        text.make_ascii_lowercase();
        return text;
    }
    text.to_lowercase()
}

/// Returns the weight of a word: words that occur once in most candidates distinguish them less than words that
/// are repeated in a few.
fn rarity(counted: &[(i64, usize, Vec<usize>)], word: usize) -> f64 {
    let repeated =
        counted.iter().filter(|(_, _, counts)| counts.get(word).is_some_and(|count| *count > 1)).count();
    (1.0 + (decimal(counted.len()) + 1.0) / (decimal(repeated) + 1.0)).ln()
}

fn mean(values: impl ExactSizeIterator<Item = usize>) -> f64 {
    let count = decimal(values.len());
    decimal(values.sum()) / count.max(1.0)
}

#[expect(clippy::cast_precision_loss, reason = "lengths and counts are far below 2^52")]
fn decimal(value: usize) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(texts: &[&str], words: &[&str], expected: &[i64]) {
        let candidates =
            (0..).zip(texts).map(|(id, text)| Candidate { id, text: (*text).to_owned() }).collect();
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        assert_eq!(rank(candidates, &words, 10), expected, "{texts:?}");
    }

    #[test]
    fn the_text_that_is_about_it_comes_first() {
        check(
            &["a lock in passing, and much else besides that is not about it", "lock lock", "lock"],
            &["lock"],
            &[1, 2, 0],
        );
    }

    #[test]
    fn of_equals_the_newest_comes_first() {
        check(&["lock", "lock", "lock"], &["lock"], &[2, 1, 0]);
    }

    #[test]
    fn nothing_is_nothing() {
        check(&[], &["lock"], &[]);
    }
}
