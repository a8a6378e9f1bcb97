//! Gives back what only the start needed of the program.
//!
//! The system maps a program's code in blocks around each place that runs, so a start, which runs a little of everything, leaves nearly all of
//! it in the process's memory. What is given back comes again from the file, or from memory that others share, as soon as it runs.

use std::time::Duration;

/// By then a start is over: the machines have shown what they have, or do not answer.
pub(super) const STARTED_AFTER: Duration = Duration::from_secs(3);

/// Waits until the start is over, and gives back what it needed.
pub(super) async fn after_the_start() {
    tokio::time::sleep(STARTED_AFTER).await;
    give_back();
}

#[cfg(target_os = "linux")]
fn give_back() {
    use std::os::unix::fs::MetadataExt as _;

    // What cannot be read stays as it is: nothing depends on it.
    let (Ok(program), Ok(maps)) = (
        std::fs::metadata("/proc/self/exe"),
        std::fs::read_to_string("/proc/self/maps"),
    ) else {
        return;
    };
    for (from, to) in code(&maps, program.ino()) {
        // SAFETY: the range is a mapping of this program's own file that nobody ever writes to (`r-xp`): a page that is dropped is read
        // from the file again when it is touched, with the same bytes.
        #[allow(unsafe_code)]
        let given = unsafe {
            let from_pointer = std::ptr::without_provenance_mut(from);
            rustix::mm::madvise(from_pointer, to - from, rustix::mm::Advice::LinuxDontNeed)
        };
        if let Err(error) = given {
            tracing::debug!(%error, "what the start needed of the program stays in memory");
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn give_back() {}

/// Where the kernel says that the code of the file with this number lies. Data of the file is left out: parts of it are written to.
#[cfg(target_os = "linux")]
fn code(maps: &str, inode: u64) -> Vec<(usize, usize)> {
    let code = maps.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (range, permissions, of) = (fields.next()?, fields.next()?, fields.nth(2)?);
        let (from, to) = range.split_once('-')?;
        let range = (
            usize::from_str_radix(from, 16).ok()?,
            usize::from_str_radix(to, 16).ok()?,
        );
        (permissions == "r-xp" && of.parse() == Ok(inode) && range.0 < range.1).then_some(range)
    });
    code.collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::expect_used, clippy::fn_to_numeric_cast_any)]

    use super::*;

    #[test]
    fn only_code_of_the_program_itself_is_found() {
        let maps = "\
5571a000-5571c000 r--p 00000000 fe:00 77 /usr/bin/t3code-mcp
5571c000-5581c000 r-xp 00002000 fe:00 77 /usr/bin/t3code-mcp (deleted)
5581c000-5582c000 r--p 00102000 fe:00 77 /usr/bin/t3code-mcp
5582c000-5582d000 rw-p 00112000 fe:00 77 /usr/bin/t3code-mcp
7f000000-7f100000 r-xp 00028000 fe:00 12 /usr/lib/libc.so.6
7f100000-7f101000 r-xp 00000000 00:00 0 [vdso]
nonsense
";
        assert_eq!(code(maps, 77), [(0x5571_c000, 0x5581_c000)]);
        assert_eq!(code(maps, 78), []);
    }

    #[test]
    fn the_program_finds_its_own_code_and_goes_on_without_what_it_gave_back() {
        use std::os::unix::fs::MetadataExt as _;

        let program = std::fs::metadata("/proc/self/exe").expect("this program").ino();
        let maps = std::fs::read_to_string("/proc/self/maps").expect("the maps");
        let found = code(&maps, program);
        let here = give_back as fn() as usize;
        assert!(
            found.iter().any(|(from, to)| (*from..*to).contains(&here)),
            "{found:x?}"
        );
        give_back();
        assert_eq!(code(&maps, program), found);
    }
}
