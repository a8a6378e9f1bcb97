//! Where a new thread works: the rules for folders, worktrees and branches that a caller may name. Pure.

use crate::gateway::dispatch::DispatchArgs;
use crate::gateway::error::{ErrorCode, ToolError};
use crate::gateway::text;
use crate::gateway::words::WorkspaceKind;
use crate::machine::Workspace;

/// The workspace that the arguments name. `known` says whether a path is a worktree that T3 shows for the project or that matches the
/// allowlist.
pub(super) fn workspace(args: &DispatchArgs, known: impl Fn(&str) -> bool) -> Result<Workspace, ToolError> {
    let kind = args.workspace.unwrap_or_default();
    let unwanted = |name: &str, given: bool, needs: &str| {
        if given {
            Err(invalid(format!("{name} goes only with workspace {needs}.")))
        } else {
            Ok(())
        }
    };
    match kind {
        WorkspaceKind::Project => {
            unwanted("base_ref", args.base_ref.is_some(), "worktree")?;
            unwanted("branch", args.branch.is_some(), "worktree")?;
            unwanted("worktree_path", args.worktree_path.is_some(), "existing_worktree")?;
            Ok(Workspace::Root)
        }
        WorkspaceKind::Worktree => {
            unwanted("worktree_path", args.worktree_path.is_some(), "existing_worktree")?;
            let base_ref = args.base_ref.as_deref().ok_or_else(|| {
                invalid("workspace worktree needs base_ref: the branch or commit that it starts from.".to_owned())
            })?;
            Ok(Workspace::Worktree {
                base_ref: git_name("base_ref", base_ref)?,
                branch: args
                    .branch
                    .as_deref()
                    .map(|branch| git_name("branch", branch))
                    .transpose()?,
            })
        }
        WorkspaceKind::ExistingWorktree => {
            unwanted("base_ref", args.base_ref.is_some(), "worktree")?;
            unwanted("branch", args.branch.is_some(), "worktree")?;
            let path = args
                .worktree_path
                .as_deref()
                .ok_or_else(|| invalid("workspace existing_worktree needs worktree_path.".to_owned()))?;
            let path = absolute("worktree_path", path)?;
            if !known(&path) {
                return Err(invalid(format!(
                    "worktree_path `{}` is no worktree that T3 shows for this project, and no allowed path.",
                    text::quoted(&path)
                ))
                .hint("Take the `worktree` of a thread of this project, or workspace worktree with a base_ref."));
            }
            Ok(Workspace::ExistingWorktree { path })
        }
    }
}

/// Only an absolute path without `.` and `..` says by itself where it leads.
pub(super) fn absolute(name: &str, path: &str) -> Result<String, ToolError> {
    plain(name, path)?;
    let mut chars = path.chars();
    let drive = chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.next() == Some(':')
        && chars.next().is_some_and(|c| c == '/' || c == '\\');
    if !path.starts_with('/') && !drive {
        return Err(invalid(format!(
            "{name} `{}` must be an absolute path.",
            text::quoted(path)
        )));
    }
    let separators: &[char] = if drive { &['/', '\\'] } else { &['/'] };
    if path.split(separators).any(|part| part == "." || part == "..") {
        return Err(invalid(format!(
            "{name} `{}` must not contain `.` or `..`.",
            text::quoted(path)
        )));
    }
    Ok(match path.trim_end_matches(separators) {
        "" => path.to_owned(),
        trimmed => trimmed.to_owned(),
    })
}

/// Git would read a leading hyphen as an option.
fn git_name(name: &str, word: &str) -> Result<String, ToolError> {
    if word.is_empty() {
        return Err(invalid(format!("{name} is empty.")));
    }
    plain(name, word)?;
    if word.starts_with('-') {
        return Err(invalid(format!(
            "{name} `{}` must not begin with `-`.",
            text::quoted(word)
        )));
    }
    Ok(word.to_owned())
}

/// T3 cuts white space off before it uses a text: what is checked here must be what is used there.
fn plain(name: &str, word: &str) -> Result<(), ToolError> {
    if text::trimmed(word).len() != word.len() {
        return Err(invalid(format!(
            "{name} `{}` must not begin or end with white space.",
            text::quoted(word).escape_debug()
        )));
    }
    if word.chars().any(char::is_control) {
        return Err(invalid(format!(
            "{name} `{}` must not contain control characters.",
            text::quoted(word).escape_debug()
        )));
    }
    Ok(())
}

fn invalid(message: String) -> ToolError {
    ToolError::new(ErrorCode::InvalidRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(kind: WorkspaceKind) -> DispatchArgs {
        DispatchArgs {
            workspace: Some(kind),
            ..DispatchArgs::default()
        }
    }

    fn refused(args: &DispatchArgs) -> bool {
        workspace(args, |path| path == "/known").is_err_and(|e| e.code == ErrorCode::InvalidRequest)
    }

    #[test]
    fn without_a_word_it_is_the_projects_folder() {
        assert_eq!(workspace(&DispatchArgs::default(), |_| false), Ok(Workspace::Root));
    }

    #[test]
    fn a_new_worktree_needs_its_base() {
        assert!(refused(&args(WorkspaceKind::Worktree)));
        let whole = DispatchArgs {
            base_ref: Some("main".to_owned()),
            branch: Some("fix/it".to_owned()),
            ..args(WorkspaceKind::Worktree)
        };
        let expected = Workspace::Worktree {
            base_ref: "main".to_owned(),
            branch: Some("fix/it".to_owned()),
        };
        assert_eq!(workspace(&whole, |_| false), Ok(expected));
    }

    #[test]
    fn names_that_git_would_read_as_options_are_refused() {
        for (base_ref, branch) in [
            ("--upload-pack=x", None),
            (" --upload-pack=x", None),
            ("\u{feff}--upload-pack=x", None),
            ("\u{a0}-x", None),
            ("main", Some("-b")),
            ("main", Some("\n-b")),
            ("main", Some("b\u{2028}")),
            ("ma\u{7}in", None),
            ("", None),
            (" ", None),
        ] {
            assert!(refused(&DispatchArgs {
                base_ref: Some(base_ref.to_owned()),
                branch: branch.map(str::to_owned),
                ..args(WorkspaceKind::Worktree)
            }));
        }
    }

    #[test]
    fn an_existing_worktree_must_be_known_and_its_path_plain() {
        let at = |path: &str| DispatchArgs {
            worktree_path: Some(path.to_owned()),
            ..args(WorkspaceKind::ExistingWorktree)
        };
        for path in ["/other", "known", "/known/../etc", "/./known", "", "~/known", "C:known"] {
            assert!(refused(&at(path)), "{path}");
        }
        // Cut to size by T3, these would lead elsewhere.
        for path in [
            "/srv/shop/.. ",
            "/srv/shop/..\u{a0}",
            " /srv/shop",
            "/srv/shop\u{feff}",
            "/srv/\u{1}",
        ] {
            let allowed = workspace(&at(path), |_| true);
            assert!(allowed.is_err_and(|e| e.code == ErrorCode::InvalidRequest), "{path:?}");
        }
        assert_eq!(
            workspace(&at("/known/"), |path| path == "/known"),
            Ok(Workspace::ExistingWorktree {
                path: "/known".to_owned()
            })
        );
    }

    #[test]
    fn windows_paths_are_paths() {
        assert!(absolute("path", r"C:\work\app").is_ok());
        assert!(absolute("path", r"C:\work\..\app").is_err());
    }

    #[test]
    fn what_belongs_to_another_kind_is_refused() {
        assert!(refused(&DispatchArgs {
            branch: Some("b".to_owned()),
            ..DispatchArgs::default()
        }));
        assert!(refused(&DispatchArgs {
            worktree_path: Some("/known".to_owned()),
            base_ref: Some("main".to_owned()),
            ..args(WorkspaceKind::Worktree)
        }));
    }
}
