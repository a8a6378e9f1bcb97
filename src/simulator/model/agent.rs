//! The scripted agent: what the last line of a prompt makes it do, and what it holds while it works.
//!
//! Pure text in, plan out; [`turns`](super::turns) carries the plan out.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::stamp::Stamp;

/// The longest text that `big` makes, in kilobytes: enough for several frames' worth, small enough for a test machine.
const BIG_MAX_KB: usize = 16 * 1024;

/// The most lines that `edit` adds.
const EDIT_MAX_LINES: u64 = 100_000;

/// What the agent was told to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Script {
    /// Nothing was said: the run fails before its turn.
    Empty,
    /// Answers with this text.
    Say(String),
    /// Answers after a while.
    Sleep(Duration, String),
    /// Ends with this error.
    Fail(String),
    /// Declines, which ends well.
    Refuse,
    /// Its process dies.
    Crash,
    /// Runs a harmless command without asking.
    Tool,
    /// Asks before each of these commands.
    Approve(Vec<String>),
    /// Changes a file.
    Edit {
        /// Which file.
        file: String,
        /// How many lines it adds.
        lines: u64,
        /// Asks in `approval-required` mode and then tells what it heard, as the recorded agent did.
        recorded: bool,
    },
    /// Asks so many questions at once.
    Ask(usize),
    /// Asks questions with every rule that newer servers can set.
    AskForm,
    /// Asks a question that outlives its run.
    AskLater,
    /// Asks for what only T3's own window can give.
    Login,
    /// Ends, and leaves work behind that goes on for a while.
    Background(Duration),
}

impl Script {
    /// What a prompt asks for: its last line that is not blank decides.
    pub(crate) fn of(prompt: &str) -> Self {
        let Some(line) = prompt.lines().rev().map(str::trim).find(|line| !line.is_empty()) else {
            return Self::Empty;
        };
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match (word, rest) {
            ("say", text) if !text.is_empty() => Self::Say(text.to_owned()),
            ("sleep", seconds) => match seconds.parse::<f64>().ok().map(Duration::try_from_secs_f64) {
                Some(Ok(wait)) => Self::Sleep(wait, seconds.to_owned()),
                _ => Self::Say(format!("echo: {line}")),
            },
            ("fail", reason) => Self::Fail(format!("fake agent failure: {reason}")),
            ("refuse", "") => Self::Refuse,
            ("crash", "") => Self::Crash,
            ("tool", "") => Self::Tool,
            ("approve", command) if !command.is_empty() => Self::Approve(vec![command.to_owned()]),
            ("approve2", "") => Self::Approve(vec!["first cmd".to_owned(), "second cmd".to_owned()]),
            ("approveedit", "") => Self::Edit {
                file: "README.md".to_owned(),
                lines: 1,
                recorded: true,
            },
            ("edit", what) if !what.is_empty() => {
                let counted = what
                    .rsplit_once(' ')
                    .and_then(|(file, lines)| Some((file, lines.parse().ok()?)));
                let (file, lines) = counted.unwrap_or((what, 1));
                Self::Edit {
                    file: file.to_owned(),
                    lines: lines.min(EDIT_MAX_LINES),
                    recorded: false,
                }
            }
            ("ask", "form") => Self::AskForm,
            ("ask", "message") => Self::AskLater,
            ("login", "") => Self::Login,
            ("background", seconds) => match seconds.parse::<f64>().ok().map(Duration::try_from_secs_f64) {
                Some(Ok(wait)) => Self::Background(wait),
                _ => Self::Say(format!("echo: {line}")),
            },
            ("ask", "") => Self::Ask(2),
            ("ask1", "") => Self::Ask(1),
            ("big", kilobytes) => {
                let size = kilobytes.parse::<usize>().unwrap_or(1).min(BIG_MAX_KB);
                Self::Say("0123456789abcde\n".repeat(size * 64))
            }
            _ => Self::Say(format!("echo: {line}")),
        }
    }
}

/// The questions that the agent asks, in order.
pub(crate) fn questions(count: usize) -> Vec<Value> {
    let all = [
        json!({"id": "color", "header": "Question", "question": "Which color?", "options": [
            {"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]}),
        json!({"id": "extras", "header": "Question", "question": "Which extras?", "options": [
            {"label": "A", "description": "a"}, {"label": "B", "description": "b"}]}),
    ];
    all.into_iter().take(count).collect()
}

/// Questions with rules: one option of a few and nothing else, several options, and own words that may be left out.
pub(crate) fn form() -> Vec<Value> {
    vec![
        json!({"id": "size", "header": "Question", "question": "Which size?", "multiSelect": false, "allowCustomAnswer": false,
            "options": [{"label": "Small", "description": "s", "value": "s-1"}, {"label": "Large", "description": "l", "value": "l-1"}]}),
        json!({"id": "parts", "header": "Question", "question": "Which parts?", "multiSelect": true, "options": [
            {"label": "A", "description": "a"}, {"label": "B", "description": "b"}]}),
        json!({"id": "note", "header": "Question", "question": "Anything else?", "required": false, "options": []}),
    ]
}

/// What the agent makes of answers: by question id or question text; text that is no option goes as "Other" with a note; keys that
/// it does not know are dropped.
pub(crate) fn heard(questions: &[Value], answers: &Value) -> String {
    let mut chosen = serde_json::Map::new();
    let mut notes = serde_json::Map::new();
    for question in questions {
        let text = question["question"].as_str().unwrap_or_default();
        let key = question["id"].as_str().unwrap_or_default();
        let Some(answer) = answers.get(key).or_else(|| answers.get(text)) else {
            continue;
        };
        let words: Vec<String> = match answer {
            Value::Array(list) => list.iter().map(as_text).collect(),
            one => vec![as_text(one)],
        };
        // An option with a value is named by it.
        let names: Vec<&str> = question["options"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|option| option["value"].as_str().or_else(|| option["label"].as_str()))
            .collect();
        let (known, other): (Vec<String>, Vec<String>) =
            words.into_iter().partition(|word| names.contains(&word.as_str()));
        let mut picked: Vec<Value> = known.into_iter().map(Value::from).collect();
        if !other.is_empty() {
            picked.push(Value::from("Other"));
            notes.insert(text.to_owned(), json!({ "notes": other.join(", ") }));
        }
        chosen.insert(text.to_owned(), Value::Array(picked));
    }
    let mut said = format!("{{\"outcome\":\"accepted\",\"answers\":{}", Value::Object(chosen));
    if !notes.is_empty() {
        let _ = write!(said, ",\"annotations\":{}", Value::Object(notes));
    }
    said.push('}');
    format!("answers: {said}")
}

/// An object is passed as its JSON text.
fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The option that a decision selects in the agent's own protocol; none where the run is cancelled.
pub(crate) fn option_of(decision: &str) -> Option<&'static str> {
    match decision {
        "accept" => Some("allow-once"),
        "acceptForSession" | "acceptAlways" => Some("allow-always"),
        "decline" => Some("reject-once"),
        _ => None,
    }
}

/// The agent's words for the outcome of an approval.
pub(crate) fn outcome(option: &str) -> String {
    format!("{{\"outcome\":{{\"outcome\":\"selected\",\"optionId\":\"{option}\"}}}}")
}

/// A tool that the agent has begun.
#[derive(Clone, Debug)]
pub(crate) struct OpenTool {
    /// The provider's name for it.
    pub native: String,
    /// The command, or the file.
    pub subject: String,
    /// The request that it waits for.
    pub request: Option<String>,
    /// What was decided: the option's id.
    pub heard: Option<&'static str>,
    /// It has ended.
    pub done: bool,
}

/// What the agent does in a run.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// The run's ordinal.
    pub run: u64,
    /// The script of its turn.
    pub script: Script,
    /// The id of its provider turn, once that has begun.
    pub turn: Option<String>,
    /// Text that is said but not yet complete, and since when.
    pub partial: Option<(String, Stamp)>,
    /// How many messages it has completed.
    pub said: u64,
    /// Its tools.
    pub tools: Vec<OpenTool>,
    /// The id of its question.
    pub question: Option<String>,
    /// The turn before this one in the same run, which a steer cut short and which has yet to be closed.
    pub cut: Option<Box<Work>>,
}

impl Work {
    pub(crate) fn new(run: u64, script: Script) -> Self {
        Self {
            run,
            script,
            turn: None,
            partial: None,
            said: 0,
            tools: Vec::new(),
            question: None,
            cut: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_decides() {
        assert_eq!(
            Script::of("Please do this.\n\nsay hello there\n"),
            Script::Say("hello there".to_owned())
        );
        assert_eq!(
            Script::of("sleep 3"),
            Script::Sleep(Duration::from_secs(3), "3".to_owned())
        );
        assert_eq!(Script::of("  \n "), Script::Empty);
        assert_eq!(Script::of("ask"), Script::Ask(2));
        assert_eq!(
            Script::of("</user_request>"),
            Script::Say("echo: </user_request>".to_owned())
        );
    }

    #[test]
    fn the_agent_hears_answers_as_recorded() {
        let two = questions(2);
        assert_eq!(
            heard(&two, &json!({"color": "Blue", "extras": ["A", "B"]})),
            r#"answers: {"outcome":"accepted","answers":{"Which color?":["Blue"],"Which extras?":["A","B"]}}"#
        );
        let one = questions(1);
        assert_eq!(
            heard(&one, &json!({"color": "chartreuse please"})),
            r#"answers: {"outcome":"accepted","answers":{"Which color?":["Other"]},"annotations":{"Which color?":{"notes":"chartreuse please"}}}"#
        );
        assert_eq!(
            heard(&one, &json!({})),
            r#"answers: {"outcome":"accepted","answers":{}}"#
        );
        assert_eq!(
            heard(&one, &json!({"Which color?": "Red"})),
            r#"answers: {"outcome":"accepted","answers":{"Which color?":["Red"]}}"#
        );
    }
}
