//! Tests of what lasts from one command to the next, and what does not.

use std::fs;

use hermes_types::{Cancel, Environment, ShellCommand};

use super::support::{LONG, LocalFixture};

#[tokio::test]
async fn cd_and_export_last_and_variables_do_not() {
    let place = LocalFixture::new();
    place.check("mkdir sub && cd sub && export A='a b' && B=1", "").await;
    assert_eq!(place.local.directory(), place.path().join("sub"));
    place.check("echo \"$A,$B,$PWD\"", &format!("a b,,{}\n", place.path().join("sub").display())).await;
    place.check("unset A", "").await;
    place.check("echo \"${A-gone}\"", "gone\n").await;
    place.check("cd -- \"$OLDPWD\" 2>/dev/null || cd ..; export QUOTE=$'it\\'s\\n\"x\"'", "").await;
    place.check("printf %s \"$QUOTE\"", "it's\n\"x\"").await;
}

#[tokio::test]
async fn tasks_do_not_see_each_other() {
    let place = LocalFixture::new();
    place.check("export ONE=1; mkdir other; cd other", "").await;
    let other = place.host.open(place.path().to_owned());
    let command =
        ShellCommand { shell: "echo \"${ONE-unset}\"; pwd", directory: None, stdin: None, timeout: LONG };
    let finished = other.run(command, &Cancel::new()).await.unwrap();
    assert_eq!(finished.output, format!("unset\n{}\n", place.path().display()));
}

#[tokio::test]
async fn the_login_shell_is_asked_once_and_its_functions_and_aliases_hold() {
    let place = LocalFixture::new();
    let profile =
        "echo asked >> ~/count\nexport FROM_PROFILE=yes\nhi() { echo \"hi $1\"; }\nalias greet='hi you'\n";
    fs::write(place.path().join(".bash_profile"), profile).unwrap();
    place.check("echo $FROM_PROFILE; hi there", "yes\nhi there\n").await;
    place.check("greet", "hi you\n").await;
    assert_eq!(fs::read_to_string(place.path().join("count")).unwrap(), "asked\n");
}

#[tokio::test]
async fn a_login_shell_that_fails_costs_only_what_it_would_have_brought() {
    let place = LocalFixture::new();
    fs::write(place.path().join(".bash_profile"), "exit 9\n").unwrap();
    fs::write(place.path().join(".bashrc"), "").unwrap();
    let finished = place.run("echo hello").await;
    // The broken profile ends every login shell; the result must say so and not hang.
    assert_eq!((finished.output.as_str(), finished.exit_code), ("", 9));
}

#[tokio::test]
async fn a_folder_that_vanished_is_replaced_by_what_is_left_of_its_way() {
    let place = LocalFixture::new();
    place.check("mkdir -p a/b/c && cd a/b/c", "").await;
    fs::remove_dir_all(place.path().join("a/b")).unwrap();
    place.check("pwd", &format!("{}\n", place.path().join("a").display())).await;
}

#[tokio::test]
async fn a_folder_for_one_call_is_for_that_call() {
    let place = LocalFixture::new();
    fs::create_dir(place.path().join("once")).unwrap();
    let once = place.path().join("once");
    let command = ShellCommand { shell: "pwd", directory: Some(&once), stdin: None, timeout: LONG };
    let finished = place.local.run(command, &Cancel::new()).await.unwrap();
    assert_eq!(finished.output, format!("{}\n", once.display()));
    place.check("pwd", &format!("{}\n", place.path().display())).await;
}

#[tokio::test]
async fn secrets_do_not_reach_commands() {
    let place = LocalFixture::with(&[
        ("OPENAI_API_KEY", "sk-x"),
        ("MINE", "1"),
        ("_HERMES_FORCE_HF_TOKEN", "t"),
        ("odd.name", "o"),
    ]);
    place
        .check(
            "echo \"${OPENAI_API_KEY-none} $MINE $HF_TOKEN\"; env | grep -c _HERMES_FORCE_; env | grep odd",
            "none 1 t\n0\nodd.name=o\n",
        )
        .await;
}

#[tokio::test]
async fn nothing_is_left_behind() {
    let place = LocalFixture::new();
    place.check("export X=1; true", "").await;
    let LocalFixture { folder, host, local } = place;
    drop((host, local));
    let left: Vec<_> =
        fs::read_dir(folder.path().join("tmp")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_child_has_no_descriptor_but_its_three() {
    let place = LocalFixture::new();
    let _ours = fs::File::open(place.path()).unwrap();
    // The listing itself has one more descriptor open while it runs.
    let finished = place.run("ls -1 /proc/self/fd | wc -l").await;
    assert_eq!(finished.output.trim(), "4");
}
