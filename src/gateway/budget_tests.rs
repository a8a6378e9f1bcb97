//! What is cut, and that what is left fits.

use proptest::prelude::*;

use super::*;
use crate::gateway::view::{FileView, MessageView, OptionView, PlanView, QuestionView, RunView, ToolView};

fn message(role: &str, text: String) -> MessageView {
    MessageView {
        role: role.to_owned(),
        text,
        at: "2026-11-30T08:00:00Z".to_owned(),
        run: Some("run:thread:x:ordinal:1".to_owned()),
    }
}

fn base() -> ThreadView {
    ThreadView {
        thread_id: "1b671a64-40d5-491e-99b0-da01ff1f3341".to_owned(),
        machine: "mac".to_owned(),
        project: "app".to_owned(),
        title: "A thread".to_owned(),
        state: "completed".to_owned(),
        model: "codex/gpt-5".to_owned(),
        runtime_mode: "full-access".to_owned(),
        last_activity_at: "2026-11-30T08:00:00Z".to_owned(),
        ..ThreadView::default()
    }
}

fn tools(count: usize) -> Vec<ToolView> {
    (0..count)
        .map(|n| ToolView {
            kind: "command_execution".to_owned(),
            title: format!("step {n} {}", "x".repeat(100)),
            status: "completed".to_owned(),
            exit_code: Some(0),
        })
        .collect()
}

#[test]
fn what_fits_is_left_alone() {
    let mut view = base();
    view.messages = vec![message("assistant", "done".to_owned())];
    let before = view.clone();
    fit(&mut view, ANSWER_CHARS);
    assert_eq!(view, before);
}

#[test]
fn old_tool_calls_go_before_the_report() {
    let mut view = base();
    view.tools = tools(400);
    let report = "r".repeat(15_000);
    view.messages = vec![
        message("user", "do it".to_owned()),
        message("assistant", report.clone()),
    ];
    fit(&mut view, ANSWER_CHARS);
    let newest = view.tools.last().map(|tool| tool.title.starts_with("step 399 "));
    assert_eq!((view.messages[1].text == report, newest), (true, Some(true)));
    assert!(view.truncated.is_some_and(|cut| cut.tools.is_some_and(|n| n > 100)));
}

#[test]
fn earlier_messages_go_before_the_final_one_and_it_says_how_much_of_it_was_cut() {
    let mut view = base();
    view.messages = vec![
        message("user", "u".repeat(20_000)),
        message("assistant", "a".repeat(20_000)),
        message("assistant", "f".repeat(30_000)),
    ];
    fit(&mut view, ANSWER_CHARS);
    let report = view.messages.last().map(|m| m.text.clone()).unwrap_or_default();
    assert!(report.starts_with("fff") && report.chars().count() > 20_000);
    let cut = view.truncated.and_then(|cut| cut.final_message_chars);
    assert_eq!(cut, Some(30_000 - (report.chars().count() - 1)));
}

#[test]
fn questions_are_shortened_last_and_their_labels_stay() {
    let mut view = base();
    view.pending = vec![PendingView {
        kind: "question".to_owned(),
        request_id: "r".to_owned(),
        answerable: true,
        questions: vec![QuestionView {
            id: "q".to_owned(),
            question: "why ".repeat(10_000),
            options: vec![OptionView {
                label: "Yes".to_owned(),
                description: "d".repeat(9_000),
            }],
            ..QuestionView::default()
        }],
        ..PendingView::default()
    }];
    fit(&mut view, ANSWER_CHARS);
    assert_eq!(view.pending[0].questions[0].options[0].label, "Yes");
    assert!(size(&view) <= ANSWER_CHARS);
}

#[test]
fn fifty_views_fit_into_one_answer() {
    let id = "1b671a64-40d5-491e-99b0-da01ff1f3341";
    let mut views: Vec<ThreadView> = (0..50)
        .map(|n| ThreadView {
            project: "a project with a title".to_owned(),
            title: "Refactor the settlement of lost answers and its tests".to_owned(),
            run: Some(RunView {
                id: format!("run:thread:{id}:ordinal:{n}"),
                ordinal: n as u64,
                status: "completed".to_owned(),
                requested_at: "2026-11-30T08:00:00.123Z".to_owned(),
                started_at: Some("2026-11-30T08:00:01.123Z".to_owned()),
                completed_at: Some("2026-11-30T08:10:00.123Z".to_owned()),
                seconds: Some(599.1),
                ..RunView::default()
            }),
            worktree: Some(format!("/home/dev/.t3/worktrees/app/{id}")),
            pending: vec![
                PendingView {
                    kind: "question".to_owned(),
                    request_id: format!("request:thread:{id}:{n}"),
                    answerable: true,
                    ..PendingView::default()
                };
                n % 3
            ],
            messages: vec![message("assistant", "r".repeat(n * 400))],
            tools: tools(n),
            ..base()
        })
        .collect();
    let room = VIEWS_CHARS - 50 * (id.len() + 3);
    share(&mut views, room);
    let json = serde_json::to_string(&views).unwrap_or_default();
    assert!(json.chars().count() <= room + 2, "{}", json.len());
    let named = |view: &ThreadView| view.thread_id == id && view.run.as_ref().is_some_and(|run| run.id.contains(id));
    assert!(views.iter().all(named) && views.iter().all(|view| view.state == "completed"));
}

#[test]
fn of_several_views_the_small_ones_stay_whole() {
    let mut views: Vec<ThreadView> = [60_000, 300, 60_000]
        .map(|chars| ThreadView {
            messages: vec![message("assistant", "r".repeat(chars))],
            ..base()
        })
        .to_vec();
    share(&mut views, ANSWER_CHARS);
    let kept: Vec<usize> = views.iter().map(|view| view.messages[0].text.chars().count()).collect();
    assert!(kept[1] == 300 && kept[0] > 10_000 && kept[2] > 10_000, "{kept:?}");
}

#[test]
fn a_report_of_many_lines_takes_what_its_marked_lines_take() {
    let mut view = base();
    view.messages = vec![message("assistant", "x\n".repeat(20_000))];
    fit(&mut view, VIEWS_CHARS);
    let lines = view.messages[0].text.lines().count();
    let marked: usize = view.messages[0].text.lines().map(|line| line.chars().count() + 3).sum();
    assert!(
        lines > 4_000 && marked <= VIEWS_CHARS,
        "{lines} lines, {marked} characters"
    );
}

fn any_view() -> impl Strategy<Value = ThreadView> {
    let text = || {
        prop_oneof![0usize..50, 0usize..40_000]
            .prop_map(|n| "ab\"\n\u{1}ü ".chars().cycle().take(n).collect::<String>())
    };
    let messages = prop::collection::vec((any::<bool>(), text()), 0..6);
    let question = (text(), text()).prop_map(|(question, description)| PendingView {
        kind: "question".to_owned(),
        request_id: "r".to_owned(),
        questions: vec![QuestionView {
            id: "q".to_owned(),
            question,
            options: vec![OptionView {
                label: "Yes".to_owned(),
                description,
            }],
            ..QuestionView::default()
        }],
        ..PendingView::default()
    });
    (
        messages,
        0usize..400,
        0usize..400,
        0usize..60,
        prop::collection::vec(question, 0..4),
        text(),
    )
        .prop_map(|(messages, tool_count, files, plan, pending, title)| ThreadView {
            messages: messages
                .into_iter()
                .map(|(agent, text)| message(if agent { "assistant" } else { "user" }, text))
                .collect(),
            tools: tools(tool_count),
            files: vec![
                FileView {
                    path: "src/a/long/path/to/a/file.rs".to_owned(),
                    change: "modified".to_owned(),
                    additions: 1,
                    deletions: 2,
                };
                files
            ],
            plan: vec![
                PlanView {
                    step: "a step of the plan".to_owned(),
                    status: "pending".to_owned(),
                };
                plan
            ],
            pending,
            title,
            ..base()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn whatever_a_thread_holds_its_view_fits_and_says_what_was_cut(view in any_view(), budget in prop_oneof![Just(ANSWER_CHARS), 1_500usize..6_000]) {
        let mut cut = view.clone();
        fit(&mut cut, budget);
        prop_assert!(size(&cut) <= budget, "{} > {budget}", size(&cut));
        prop_assert_eq!(cut.truncated.is_some(), cut != view);
    }
}
