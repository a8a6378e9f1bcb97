//! `t3_diff`: what a run, or the whole thread, changed in the workspace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::Found;
use crate::gateway::patch::{self, FilePatch};
use crate::gateway::reading::deleted;
use crate::gateway::standing::Standing;
use crate::gateway::{ANSWER_CHARS, Caller, ErrorCode, Gateway, ToolError, budget, text};
use crate::lifecycle::{RunFacts, RunState, ThreadState};
use crate::machine::{Checkpoint, MachineError, Thread, Turns};
use crate::protocol::RunId;

/// Whose changes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiffArgs {
    /// The thread.
    pub thread_id: String,
    /// The run: its id, or its ordinal in the thread (1 is the first). Left out: all runs of the thread together.
    #[serde(default)]
    pub run: Option<String>,
}

/// The changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct DiffAnswer {
    /// The thread.
    pub thread_id: String,
    /// Its machine.
    pub machine: String,
    /// The run, where one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// What is told: diff; numbers, where T3 has only those; nothing, where it captured nothing.
    pub source: String,
    /// The unified diff, without what `files` says was left out. A file's part is whole, or left out; only a single giant is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The changed files.
    pub files: Vec<DiffFile>,
    /// So many more files were changed and are not listed; their part of the diff is left out too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_left_out: Option<usize>,
    /// What one should know about it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
}

/// A changed file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct DiffFile {
    /// Its path.
    pub path: String,
    /// added, deleted, renamed, modified, or T3's own word.
    pub change: String,
    /// Lines added.
    pub additions: u64,
    /// Lines deleted.
    pub deletions: u64,
    /// So many lines of its part of the diff were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines_left_out: Option<usize>,
}

/// What the list of files may take, and what is left for the diff.
const FILES_CHARS: usize = 6_000;
const DIFF_CHARS: usize = ANSWER_CHARS - FILES_CHARS - 2_500;
/// How much of a path is shown.
const PATH_CHARS: usize = 300;
/// T3's word for a checkpoint that can be compared.
const READY: &str = "ready";

const DIFF: &str = "diff";
const NUMBERS: &str = "numbers";
const NOTHING: &str = "nothing";

/// What is to be compared.
struct Wanted {
    turns: Turns,
    notes: Vec<String>,
}

impl Gateway {
    /// The unified diff within an answer's size; per-file numbers where T3 has no diff.
    pub async fn diff(&self, caller: &Caller, args: DiffArgs) -> Result<DiffAnswer, ToolError> {
        let found = self.find_thread(caller, &args.thread_id).await?;
        let failed = |error: &MachineError| ToolError::from_machine(found.member.name(), error);
        let mut thread = self.read(&found).await?;
        if thread.partial {
            // The run may be an old one, and which checkpoint came before it only the whole tells.
            let whole = found.member.machine.read_whole_thread(&found.id).await;
            thread = whole.map_err(|error| failed(&error))?;
        }
        let standing = self.standing(&found.member, &thread);
        if standing.state() == ThreadState::Gone {
            return Err(deleted(&found));
        }
        let run = args
            .run
            .as_deref()
            .map(|name| run_of(&standing, &found, name))
            .transpose()?;
        let mut answer = DiffAnswer {
            thread_id: found.id.to_string(),
            machine: found.member.name().to_owned(),
            run_id: run.map(|run| run.id.to_string()),
            source: NOTHING.to_owned(),
            ..DiffAnswer::default()
        };
        let wanted = match run {
            Some(run) => of_run(&standing, run),
            None => of_thread(&standing),
        };
        let why = match wanted {
            Ok(wanted) => {
                answer.notes = wanted.notes;
                match found.member.machine.diff(&found.id, wanted.turns).await {
                    Ok(Some(diff)) => {
                        with_diff(&mut answer, &diff);
                        return Ok(answer);
                    }
                    Ok(None) => "This T3 cannot tell diffs; update it to have them.".to_owned(),
                    // It has the procedure and no diff for this: the numbers are better than nothing.
                    Err(MachineError::Rejected { message, .. } | MachineError::Defect { defect: message }) => {
                        format!("T3 gave no diff: {}", text::cut(&message, PATH_CHARS))
                    }
                    Err(error) => return Err(failed(&error)),
                }
            }
            Err(why) => why,
        };
        answer.notes.push(why);
        with_numbers(&mut answer, &thread, run.map(|run| &run.id));
        Ok(answer)
    }
}

/// The run that is meant, by id or ordinal.
fn run_of<'a>(standing: &Standing<'a>, found: &Found, name: &str) -> Result<&'a RunFacts, ToolError> {
    let ordinal = name.parse::<u64>().ok();
    let runs = &standing.thread.facts.runs;
    runs.iter()
        .find(|run| run.id.as_str() == name)
        .or_else(|| runs.iter().find(|run| Some(run.ordinal) == ordinal))
        .ok_or_else(|| {
            ToolError::new(
                ErrorCode::InvalidRequest,
                format!("The thread {} has no run `{}`.", found.id, text::quoted(name)),
            )
            .hint(format!(
                "It has {} runs; leave run out for all changes, or pass an ordinal from 1, or a run's id as t3_thread shows it.",
                runs.len()
            ))
        })
}

/// The turn of a checkpoint that T3 can compare: of a run that completed.
fn turn(standing: &Standing<'_>, checkpoint: &Checkpoint) -> Option<u64> {
    let completed = |id: &RunId| {
        let run = standing.run(id)?;
        (standing.run_state(run) == RunState::Completed).then_some(())
    };
    completed(checkpoint.run.as_ref()?)?;
    checkpoint.turn.filter(|_| checkpoint.status == READY)
}

fn of_run(standing: &Standing<'_>, run: &RunFacts) -> Result<Wanted, String> {
    let checkpoints = &standing.thread.checkpoints;
    let own = checkpoints
        .iter()
        .filter(|checkpoint| checkpoint.run.as_ref() == Some(&run.id));
    let Some(to) = own.filter_map(|checkpoint| turn(standing, checkpoint)).max() else {
        return Err(why_nothing(standing, run));
    };
    let before = checkpoints.iter().filter_map(|checkpoint| turn(standing, checkpoint));
    let from = before.filter(|before| *before < to).max().unwrap_or(0);
    let mut notes = Vec::new();
    // The state before a run is that after the last one that T3 captured.
    if to - from > 1 {
        notes.push(format!(
            "What the runs from ordinal {} on changed is in it too: T3 captured nothing at their ends.",
            from + 1
        ));
    }
    Ok(Wanted {
        turns: Turns::Between(from, to),
        notes,
    })
}

fn of_thread(standing: &Standing<'_>) -> Result<Wanted, String> {
    let checkpoints = &standing.thread.checkpoints;
    let Some(to) = checkpoints
        .iter()
        .filter_map(|checkpoint| turn(standing, checkpoint))
        .max()
    else {
        let newest = standing.thread.facts.runs.iter().max_by_key(|run| run.ordinal);
        return Err(newest.map_or_else(
            || "No run of this thread has ever started.".to_owned(),
            |run| why_nothing(standing, run),
        ));
    };
    let newest = standing
        .thread
        .facts
        .runs
        .iter()
        .map(|run| run.ordinal)
        .max()
        .unwrap_or(to);
    let mut notes = Vec::new();
    if newest > to {
        notes.push(format!(
            "It is as of the end of the run with ordinal {to}: T3 captures what a run changed when it completes."
        ));
    }
    Ok(Wanted {
        turns: Turns::UpTo(to),
        notes,
    })
}

/// Why T3 can compare nothing for a run.
fn why_nothing(standing: &Standing<'_>, run: &RunFacts) -> String {
    let state = standing.run_state(run);
    if !state.is_ended() {
        return format!(
            "The run is {}: T3 captures what it changed when it completes.",
            state.as_str()
        );
    }
    if state != RunState::Completed {
        return format!(
            "The run is {}: T3 compares only what completed runs left.",
            state.as_str()
        );
    }
    "T3 captured nothing to compare at the run's end: its folder may be no git repository.".to_owned()
}

fn with_diff(answer: &mut DiffAnswer, diff: &str) {
    let parts = patch::split(diff);
    let listed = list(answer, parts.iter().map(file));
    // What is not listed cannot be said to be left out: it is left out.
    let fitted = patch::fit(parts.get(..listed).unwrap_or_default(), DIFF_CHARS);
    for (file, lines) in answer.files.iter_mut().zip(&fitted.left_out) {
        file.lines_left_out = Some(*lines).filter(|lines| *lines > 0);
    }
    DIFF.clone_into(&mut answer.source);
    answer.diff = Some(fitted.text);
    if parts.is_empty() {
        answer.notes.push("Nothing was changed.".to_owned());
    }
}

fn file(part: &FilePatch<'_>) -> DiffFile {
    DiffFile {
        path: text::cut(&part.path, PATH_CHARS),
        change: part.change.to_owned(),
        additions: part.additions,
        deletions: part.deletions,
        lines_left_out: None,
    }
}

/// The numbers of checkpoints; those of several runs are added up.
fn with_numbers(answer: &mut DiffAnswer, thread: &Thread, run: Option<&RunId>) {
    let mut files: Vec<DiffFile> = Vec::new();
    for change in &thread.files {
        if run.is_some_and(|run| change.run.as_ref() != Some(run)) {
            continue;
        }
        match files.iter_mut().find(|file| file.path == change.path) {
            Some(known) => {
                known.additions = known.additions.saturating_add(change.additions);
                known.deletions = known.deletions.saturating_add(change.deletions);
                change.change.clone_into(&mut known.change);
            }
            None => files.push(DiffFile {
                path: change.path.clone(),
                change: change.change.clone(),
                additions: change.additions,
                deletions: change.deletions,
                lines_left_out: None,
            }),
        }
    }
    if files.is_empty() {
        return;
    }
    NUMBERS.clone_into(&mut answer.source);
    list(
        answer,
        files.into_iter().map(|file| DiffFile {
            path: text::cut(&file.path, PATH_CHARS),
            change: text::cut(&file.change, PATH_CHARS),
            ..file
        }),
    );
}

/// Lists as many files as fit; how many those are.
fn list(answer: &mut DiffAnswer, files: impl ExactSizeIterator<Item = DiffFile>) -> usize {
    let all = files.len();
    let mut room = FILES_CHARS;
    for file in files {
        // With room for the number of lines that may be left out.
        let takes = budget::size_in_list(&DiffFile {
            lines_left_out: Some(usize::MAX),
            ..file.clone()
        });
        if takes > room {
            break;
        }
        room -= takes;
        answer.files.push(file);
    }
    let listed = answer.files.len();
    answer.files_left_out = Some(all - listed).filter(|left| *left > 0);
    listed
}
