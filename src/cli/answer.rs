//! `answer`: what `t3_answer` does. On a terminal it asks what the thread asks; elsewhere flags say it.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};

use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::asking::Asking;
use super::flags::SettingFlags;
use super::{Failure, asking, output, reply, runtime, view, words};
use crate::gateway::{AnswerAnswer, AnswerArgs, PendingView, ThreadArgs, ThreadView};
use crate::mcp::tools::{Answer, Thread};

/// Answer a thread's question, or decide its approval.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The thread
    thread: String,
    /// The answer to a question, by its id; several for one question make a list
    #[arg(long = "answer", short, value_name = "QUESTION=ANSWER", value_parser = words::pair)]
    answers: Vec<(String, String)>,
    /// The decision about an approval
    #[arg(long, short, value_name = "WORD", conflicts_with = "answers")]
    decision: Option<String>,
    /// Close a question without an answer
    #[arg(long, conflicts_with_all = ["answers", "decision"])]
    dismiss: bool,
    /// Which request is meant, where several are pending
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Print what the tool `t3_answer` answers
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingFlags<false>,
}

const EXAMPLES: &str = "\
Examples:
  t3code-mcp answer 0b7c…                              on a terminal: it asks
  t3code-mcp answer 0b7c… -a color=Red -a extras=A -a extras=B
  t3code-mcp answer 0b7c… --decision accept
  t3code-mcp answer 0b7c… --dismiss";

/// Answers and prints.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = asking::config(&args.settings)?;
    let says = args.decision.is_some() || args.dismiss || !args.answers.is_empty();
    let may_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
    runtime::run_alone(asking::keeping(&config, async |asking| {
        let asked = if says {
            by_flags(args)
        } else {
            let pending = pending(asking, args).await?;
            if !may_ask {
                return Err(nobody_to_ask(&pending));
            }
            ask(args, &pending).await?
        };
        let answer = asking.ask::<Answer>(&asked).await?;
        if args.json {
            output::json(&answer)
        } else {
            output::answer(format_args!("{}", told(&answer)))
        }
    }))?
}

fn by_flags(args: &Args) -> AnswerArgs {
    let mut answers: Map<String, Value> = Map::new();
    for (question, answer) in &args.answers {
        match answers.get_mut(question) {
            None => _ = answers.insert(question.clone(), Value::from(answer.as_str())),
            Some(Value::Array(several)) => several.push(Value::from(answer.as_str())),
            Some(one) => *one = Value::from(vec![one.take(), Value::from(answer.as_str())]),
        }
    }
    AnswerArgs {
        thread_id: args.thread.clone(),
        answers: (!answers.is_empty()).then_some(answers),
        decision: args.decision.clone(),
        dismiss: args.dismiss.then_some(true),
        request_id: args.request_id.clone(),
    }
}

/// The request that is meant.
async fn pending(asking: &Asking, args: &Args) -> Result<PendingView, Failure> {
    let asked = ThreadArgs {
        thread_id: args.thread.clone(),
        turns: Some(1),
    };
    let view = asking.ask::<Thread>(&asked).await?;
    choose(view, args.request_id.as_deref())
}

fn choose(view: ThreadView, id: Option<&str>) -> Result<PendingView, Failure> {
    let state = view::fact(&view.state);
    let machine = view::fact(&view.machine);
    let ids: Vec<String> = view
        .pending
        .iter()
        .map(|request| view::fact(&request.request_id))
        .collect();
    let mut meant: Vec<PendingView> = view
        .pending
        .into_iter()
        .filter(|request| id.is_none_or(|id| request.request_id == id))
        .collect();
    match (meant.pop(), meant.is_empty()) {
        (Some(request), true) if request.answerable => Ok(request),
        (Some(request), true) => Err(Failure::said(format_args!(
            "the request {} can only be answered in T3 itself, on {machine}",
            view::fact(&request.request_id)
        ))),
        (Some(_), false) => Err(Failure::said(format_args!(
            "{} requests are pending. Say which with --request-id: {}",
            ids.len(),
            ids.join(", ")
        ))),
        (None, _) if ids.is_empty() => Err(Failure::said(format_args!("the thread asks nothing; it is {state}"))),
        (None, _) => Err(Failure::said(format_args!(
            "no such request is pending. Pending: {}",
            ids.join(", ")
        ))),
    }
}

/// Nobody is there to be asked: what to answer, and how, is told.
fn nobody_to_ask(request: &PendingView) -> Failure {
    let mut text = String::from("stdin is no terminal, so the answer has to come by flags.\n");
    view::asked(&mut text, request, "");
    let how = if request.approval.is_some() {
        "--decision WORD"
    } else {
        "--answer QUESTION=ANSWER for each of them"
    };
    let _ = write!(text, "  → {how}");
    Failure::Asked(text)
}

/// Asks the person.
async fn ask(args: &Args, request: &PendingView) -> Result<AnswerArgs, Failure> {
    let mut asked = AnswerArgs {
        thread_id: args.thread.clone(),
        request_id: Some(request.request_id.clone()),
        ..AnswerArgs::default()
    };
    if let Some(approval) = &request.approval {
        let mut text = String::new();
        view::asked(&mut text, request, "");
        output::complain(format_args!("{}", text.trim()));
        asked.decision = Some(until_taken(|typed| reply::to_approval(approval, typed)).await?);
        return Ok(asked);
    }
    let mut answers = Map::new();
    for question in &request.questions {
        let mut text = String::new();
        view::question(&mut text, question);
        output::complain(format_args!("{}", text.trim_end()));
        if let Some(answer) = until_taken(|typed| reply::to_question(question, typed)).await? {
            answers.insert(question.id.clone(), answer);
        }
    }
    asked.answers = Some(answers);
    Ok(asked)
}

async fn until_taken<T>(read: impl Fn(&str) -> Result<T, String>) -> Result<T, Failure> {
    loop {
        output::ask("> ");
        match read(&line().await?) {
            Ok(taken) => return Ok(taken),
            Err(why) => output::complain(format_args!("{why}")),
        }
    }
}

/// The next line that is typed. It is read on a thread of its own, which nobody waits for when the command is told to stop.
async fn line() -> Result<String, Failure> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin()
            .read_line(&mut line)
            .map(|bytes| (bytes > 0).then_some(line));
        let _ = sender.send(read);
    });
    match receiver.await {
        Ok(Ok(Some(line))) => Ok(line),
        Ok(Ok(None)) | Err(_) => Err(Failure::said("nothing was answered: the input ended")),
        Ok(Err(error)) => Err(Failure::said(format_args!("the answer cannot be read ({error})"))),
    }
}

fn told(answer: &AnswerAnswer) -> String {
    let run = match &answer.run_id {
        Some(run) => format!(", run {}", view::fact(run)),
        None => String::new(),
    };
    format!(
        "answered {}; the thread on {} is {}{run}\n\nnext: t3code-mcp wait {}",
        answer
            .answered
            .iter()
            .map(|id| view::fact(id))
            .collect::<Vec<_>>()
            .join(", "),
        view::fact(&answer.machine),
        view::fact(&answer.state),
        view::fact(&answer.thread_id)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::{ApprovalView, OptionView, QuestionView};

    fn request(id: &str) -> PendingView {
        PendingView {
            kind: "question".to_owned(),
            request_id: id.to_owned(),
            answerable: true,
            questions: vec![QuestionView {
                id: "color".to_owned(),
                question: "Which \u{1b}]0;color?".to_owned(),
                options: vec![OptionView {
                    label: "Red".to_owned(),
                    description: "warm".to_owned(),
                }],
                multi_select: Some(true),
                ..QuestionView::default()
            }],
            ..PendingView::default()
        }
    }

    fn chosen(pending: Vec<PendingView>, id: Option<&str>) -> String {
        let view = ThreadView {
            state: "question".to_owned(),
            machine: "mac".to_owned(),
            pending,
            ..ThreadView::default()
        };
        match choose(view, id) {
            Ok(request) => request.request_id,
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn the_request_that_is_meant_is_found_or_all_are_named() {
        assert_eq!(chosen(vec![request("a")], None), "a");
        assert_eq!(chosen(vec![request("a"), request("b")], Some("b")), "b");
        assert_eq!(
            chosen(vec![request("a"), request("b\n")], None),
            r"2 requests are pending. Say which with --request-id: a, b\n"
        );
        assert_eq!(
            chosen(vec![request("a")], Some("z")),
            "no such request is pending. Pending: a"
        );
        assert_eq!(chosen(vec![], None), "the thread asks nothing; it is question");
        let elsewhere = PendingView {
            answerable: false,
            ..request("a")
        };
        assert_eq!(
            chosen(vec![elsewhere], None),
            "the request a can only be answered in T3 itself, on mac"
        );
    }

    #[test]
    fn without_a_terminal_it_says_what_is_asked_and_how_to_answer() {
        let approval = PendingView {
            kind: "approval".to_owned(),
            questions: Vec::new(),
            approval: Some(ApprovalView {
                kind: "command".to_owned(),
                title: Some("Run it?".to_owned()),
                detail: Some("rm -rf /tmp/x\n\u{202e}echo".to_owned()),
                decisions: vec!["accept".to_owned(), "decline".to_owned()],
            }),
            ..request("b")
        };
        let told = |request: &PendingView| nobody_to_ask(request).told().unwrap_or_default();
        view::snapshot(
            "nobody_to_ask",
            &format!("{}\n\n{}", told(&request("a")), told(&approval)),
        );
    }
}
