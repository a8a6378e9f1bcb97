//! A unified diff of git's, taken apart by file and cut to size. Pure; it judges nothing of what the diff says.

use crate::gateway::text;

/// What every file's part of a diff begins with.
const FILE: &str = "diff --git ";
/// What stands for no file.
const NOWHERE: &str = "/dev/null";

/// The part of a diff that is about one file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct FilePatch<'a> {
    pub(super) text: &'a str,
    pub(super) path: String,
    pub(super) change: &'static str,
    pub(super) additions: u64,
    pub(super) deletions: u64,
}

/// Takes a diff apart. What does not begin as git's diffs do is one part.
pub(super) fn split(diff: &str) -> Vec<FilePatch<'_>> {
    let mut starts: Vec<usize> = Vec::new();
    let mut at = 0;
    // A line of a file's content begins with a sign, so this is never one.
    for line in diff.split_inclusive('\n') {
        if line.starts_with(FILE) {
            starts.push(at);
        }
        at += line.len();
    }
    if starts.first() != Some(&0) && !diff.is_empty() {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([diff.len()]);
    let parts = starts.iter().zip(ends).filter_map(|(start, end)| diff.get(*start..end));
    parts.filter(|part| !part.trim().is_empty()).map(file).collect()
}

fn file(text: &str) -> FilePatch<'_> {
    let mut patch = FilePatch {
        text,
        path: String::new(),
        change: "modified",
        additions: 0,
        deletions: 0,
    };
    let (mut before, mut after) = (None, None);
    let mut in_content = false;
    for line in text.lines() {
        if line.starts_with("@@") {
            in_content = true;
        } else if in_content {
            match line.as_bytes().first() {
                Some(b'+') => patch.additions += 1,
                Some(b'-') => patch.deletions += 1,
                _ => {}
            }
        } else if let Some(path) = line.strip_prefix("--- ") {
            before = bare(path);
        } else if let Some(path) = line.strip_prefix("+++ ") {
            after = bare(path);
        } else if line.starts_with("new file mode") {
            patch.change = "added";
        } else if line.starts_with("deleted file mode") {
            patch.change = "deleted";
        } else if let Some(path) = line.strip_prefix("rename to ") {
            patch.change = "renamed";
            after = after.or(bare(path));
        }
    }
    patch.path = after.or(before).or_else(|| of_header(text)).unwrap_or_default();
    patch
}

/// A path without git's prefix and quotes; none for no file.
fn bare(path: &str) -> Option<String> {
    let path = path.split('\t').next().unwrap_or(path).trim_matches('"');
    if path == NOWHERE {
        return None;
    }
    let path = path
        .strip_prefix("a/")
        .or_else(|| path.strip_prefix("b/"))
        .unwrap_or(path);
    Some(path.to_owned())
}

/// The path in a part's first line, where no other line has it: a file without content, or one that is not text.
fn of_header(text: &str) -> Option<String> {
    let line = text.lines().next()?.strip_prefix(FILE)?;
    // Both halves name the same file there.
    let (_, after) = line.rsplit_once(" b/").or_else(|| line.rsplit_once(" \"b/"))?;
    Some(after.trim_end_matches('"').to_owned())
}

/// What of a diff fits.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Fitted {
    pub(super) text: String,
    /// Of each part, how many of its lines were left out.
    pub(super) left_out: Vec<usize>,
}

/// Keeps the parts that fit into `room`, each whole, in their order: what is whole can be applied. Only where none fits, the first is cut.
pub(super) fn fit(parts: &[FilePatch<'_>], room: usize) -> Fitted {
    let mut fitted = Fitted::default();
    let mut left = room;
    for part in parts {
        let takes = text::written(part.text);
        let fits = takes <= left;
        if fits {
            left -= takes;
            fitted.text.push_str(part.text);
        }
        fitted.left_out.push(if fits { 0 } else { part.text.lines().count() });
    }
    if fitted.text.is_empty()
        && let (Some(first), Some(left_out)) = (parts.first(), fitted.left_out.first_mut())
    {
        let head = text::written_head(first.text, room);
        // A line is whole, or left out.
        let kept = head.rfind('\n').and_then(|end| head.get(..=end)).unwrap_or_default();
        kept.clone_into(&mut fitted.text);
        *left_out -= kept.lines().count();
    }
    fitted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DIFF: &str = "diff --git a/src/a.rs b/src/a.rs\nindex 1..2 100644\n--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,2 +1,3 @@\n one\n-two\n+TWO\n+--- three\n\
        diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+diff --git a/x b/x\n\
        diff --git a/old b/old\ndeleted file mode 100644\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n\
        diff --git a/p.png b/p.png\nindex 1..2 100644\nBinary files a/p.png and b/p.png differ\n\
        diff --git a/from b/to\nsimilarity index 100%\nrename from from\nrename to to\n";

    #[test]
    fn a_diff_is_taken_apart_by_file() {
        let parts = split(DIFF);
        let seen: Vec<_> = parts
            .iter()
            .map(|part| (part.path.as_str(), part.change, part.additions, part.deletions))
            .collect();
        assert_eq!(
            seen,
            [
                ("src/a.rs", "modified", 2, 1),
                ("new", "added", 1, 0),
                ("old", "deleted", 0, 1),
                ("p.png", "modified", 0, 0),
                ("to", "renamed", 0, 0)
            ]
        );
    }

    #[test]
    fn what_fits_is_whole_and_a_lone_giant_is_cut_at_a_line() {
        let parts = split(DIFF);
        let last = text::written(parts[4].text);
        let fitted = fit(&parts, last);
        assert_eq!(fitted.text, parts[4].text);
        assert_eq!(fitted.left_out[4], 0);
        assert!(fitted.left_out[..4].iter().all(|lines| *lines > 0));
        let cut = fit(&parts[..1], 90);
        assert!(DIFF.starts_with(&cut.text) && cut.text.ends_with('\n'));
        assert_eq!(
            cut.left_out[0] + cut.text.lines().count(),
            parts[0].text.lines().count()
        );
    }

    proptest! {
        #[test]
        fn nothing_gets_lost_and_nothing_is_too_long(diff in "((diff --git a/x b/x|@@|[+-]|\u{e4}|[a-z\"\\\\ ]{0,9})?\n?){0,30}", room in 0usize..200) {
            let parts = split(&diff);
            let together: String = parts.iter().map(|part| part.text).collect();
            let lost = diff.strip_suffix(together.as_str());
            prop_assert!(lost.is_some_and(|lost| lost.trim().is_empty()), "{lost:?}");
            let fitted = fit(&parts, room);
            prop_assert!(text::written(&fitted.text) <= room);
            prop_assert_eq!(fitted.left_out.len(), parts.len());
        }
    }
}
