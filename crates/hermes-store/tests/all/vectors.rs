//! The search of vectors: what a first look at sketches finds, compared with looking at all.

use hermes_store::{NewMessage, NewSession, RecallScope};
use hermes_types::{Message, MessageId, SessionId, Timestamp};

use super::support::*;

const DIMENSIONS: usize = 64;
const COUNT: usize = 3_000;

/// Numbers from -1 to 1 that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn vector(&mut self) -> Vec<f32> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f32::from(u16::try_from(self.0 >> 48).unwrap()) / 32_768.0 - 1.0
        };
        (0..DIMENSIONS).map(|_| next()).collect()
    }
}

fn similarity(a: &[f32], b: &[f32]) -> f32 {
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    product(a, b) / product(a, a).sqrt() / product(b, b).sqrt()
}

#[test]
fn a_first_look_finds_what_a_look_at_all_vectors_finds() {
    let fixture = store_fixture();
    let (mine, other) = (fixture.session("mine", 1.0), fixture.session("other", 2.0));
    let mut numbers = Numbers(7);
    let mut stored: Vec<(MessageId, Vec<f32>, bool)> = Vec::new();
    for at in 0..COUNT {
        let is_mine = at % 3 != 0;
        let message = NewMessage::new(Message::user(format!("statement number {at}")), Timestamp(1.0));
        let id = fixture.store.append(if is_mine { &mine } else { &other }, message).wait().unwrap();
        stored.push((id, numbers.vector(), is_mine));
    }
    for rows in stored.chunks(64) {
        let rows = rows.iter().map(|(id, vector, _)| (*id, vector.clone())).collect();
        fixture.store.store_vectors("m", rows).wait().unwrap();
    }
    fixture
        .store
        .create_session(NewSession::new(SessionId::from("later"), "cli", Timestamp(3.0)))
        .wait()
        .unwrap();
    let sql = fixture.sql();
    let blocks: i64 = sql.query_row("SELECT COUNT(*) FROM hx_vector_blocks", [], |row| row.get(0)).unwrap();
    assert_eq!(blocks, 12, "256 in each");
    let check = |wanted: &[f32], may_read: &dyn Fn(usize, bool) -> bool, scope: &RecallScope| {
        let mut best: Vec<(f32, MessageId)> = stored
            .iter()
            .enumerate()
            .filter(|(at, (.., is_mine))| may_read(*at, *is_mine))
            .map(|(_, (id, vector, _))| (similarity(wanted, vector), *id))
            .collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0));
        let found = fixture.store.similar_messages("m", wanted, scope.clone(), 10).wait().unwrap();
        let ids: Vec<MessageId> = found.iter().map(|found| found.message.id).collect();
        let expected: Vec<MessageId> = best.iter().take(10).map(|(_, id)| *id).collect();
        // One byte per number may swap neighbours that are equal but for that.
        let same = ids.iter().filter(|id| expected.contains(id)).count();
        assert!(same >= 9 && ids[0] == expected[0], "{ids:?}, {expected:?}");
    };
    let all = RecallScope { own_sources: vec!["cli".to_owned()], ..RecallScope::default() };
    for at in [5, 700, 2_900] {
        // Something like a statement that is there.
        let noise = numbers.vector();
        let wanted: Vec<f32> = stored[at].1.iter().zip(&noise).map(|(a, b)| a + b * 0.3).collect();
        check(&wanted, &|_, _| true, &all);
    }
    let wanted = stored[1].1.clone();
    // A session that is gone is not found, though its sketches are still there.
    fixture.store.delete_session(&other).wait().unwrap();
    check(&wanted, &|_, is_mine| is_mine, &all);
    // What an earlier release added has no sketches: it is found all the same, and gets them with the next vector.
    sql.execute("DELETE FROM hx_vector_blocks WHERE number > 8", []).unwrap();
    let newest = stored[2_999 - 1].1.clone();
    check(&newest, &|_, is_mine| is_mine, &all);
    sql.execute("DELETE FROM hx_vector_blocks", []).unwrap();
    check(&wanted, &|_, is_mine| is_mine, &all);
    fixture.store.store_vectors("m", vec![(stored[1].0, stored[1].1.clone())]).wait().unwrap();
    let names: i64 =
        sql.query_row("SELECT SUM(length(names)) / 12 FROM hx_vector_blocks", [], |row| row.get(0)).unwrap();
    assert_eq!(names, 2_001);
    check(&wanted, &|_, is_mine| is_mine, &all);
}
