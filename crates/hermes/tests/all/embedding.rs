//! Runs the example in `examples/` against the scripted server.

#[path = "../../examples/embed.rs"]
mod embed;

use hermes_testkit::ModelServer;

#[tokio::test]
async fn the_example_talks_to_a_model_and_uses_its_tool() {
    let server = ModelServer::start(embed::script()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let answers = embed::talk(folder.path(), &server.base_url()).await.unwrap();
    assert_eq!(answers, ["Sunny, so take your sunglasses.", "You are welcome."]);
    assert!(server.request(1).body_text().contains("sunny in Oslo"));
}
