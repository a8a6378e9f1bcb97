//! Where the prompt of a dispatch comes from: the argument, a file, or stdin.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::path::Path;

use super::Failure;

/// More than any machine takes.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// The prompt. Without argument and file it is read from stdin, unless that is a terminal, where nobody would know what is waited for.
pub(super) fn read(argument: Option<&str>, file: Option<&Path>) -> Result<String, Failure> {
    let prompt = match (argument, file) {
        (Some("-"), None) => from(io::stdin().lock(), "stdin")?,
        (Some(prompt), _) => prompt.to_owned(),
        (None, Some(path)) if path == Path::new("-") => from(io::stdin().lock(), "stdin")?,
        (None, Some(path)) => {
            let name = path.display().to_string();
            let file = File::open(path).map_err(|error| unreadable(&name, &error))?;
            from(file, &name)?
        }
        (None, None) if io::stdin().is_terminal() => {
            return Err(Failure::said(
                "there is no prompt. Give it as the argument, with --file FILE, or on stdin",
            ));
        }
        (None, None) => from(io::stdin().lock(), "stdin")?,
    };
    if prompt.trim().is_empty() {
        return Err(Failure::said(
            "the prompt is empty. Give it as the argument, with --file FILE, or on stdin",
        ));
    }
    Ok(prompt)
}

fn from(reader: impl Read, name: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    reader
        .take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(name, &error))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MOST_BYTES {
        return Err(Failure::said(format_args!(
            "the prompt from {name} is larger than {MOST_BYTES} bytes. Put the material into the project and name it in the prompt"
        )));
    }
    String::from_utf8(bytes).map_err(|_| Failure::said(format_args!("the prompt from {name} is not UTF-8 text")))
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::said(format_args!("the prompt cannot be read from {name} ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_prompt_is_told_as_what_it_is() {
        let told = |bytes: &[u8]| from(bytes, "task.md").map_err(|failure| failure.to_string());
        assert_eq!(told(b"do it\n"), Ok("do it\n".to_owned()));
        assert!(told(b"\xff").is_err_and(|said| said.contains("not UTF-8")));
        let large = vec![b'a'; usize::try_from(MOST_BYTES).unwrap_or(0) + 1];
        assert!(told(&large).is_err_and(|said| said.contains("larger than")));
        assert!(read(Some("  \n"), None).is_err_and(|failure| failure.to_string().contains("empty")));
        let absent = read(None, Some(Path::new("/nowhere/task.md")));
        assert!(absent.is_err_and(|failure| failure.to_string().contains("/nowhere/task.md")));
    }
}
