//! Prometheus' text format 0.0.4, written by hand: the crates that write it know only its successor, `OpenMetrics`, which not every scraper takes.

use std::fmt::{Display, Write as _};

/// The media type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a family of numbers is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// It only rises, from 0 at the program's start.
    Counter,
    /// It is as it is.
    Gauge,
}

/// What is exposed, family by family.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

/// A family, to which its samples are added before the next one begins.
pub(super) struct Family<'e> {
    out: &'e mut String,
    name: &'static str,
}

impl Exposition {
    /// Begins a family.
    pub(super) fn family(&mut self, kind: Kind, name: &'static str, help: &str) -> Family<'_> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        // Writing into a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {}", escaped(help, false));
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        Family { out: &mut self.0, name }
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

impl Family<'_> {
    /// Adds a number.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.out.push_str(self.name);
        for (position, (name, text)) in labels.iter().enumerate() {
            let before = if position == 0 { '{' } else { ',' };
            let _ = write!(self.out, "{before}{name}=\"{}\"", escaped(text, true));
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }
}

fn escaped(text: &str, quoted: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str(r"\\"),
            '\n' => out.push_str(r"\n"),
            '"' if quoted => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_its_head_and_its_samples_and_no_label_breaks_out_of_its_quotes() {
        let mut all = Exposition::default();
        let mut family = all.family(Kind::Gauge, "a_b", "Said \"so\",\nand \\ so.");
        family.sample(&[], 1);
        family.sample(&[("machine", "x\"} 1\n\\"), ("code", "")], 0.5);
        all.family(Kind::Counter, "c_total", "Nothing.");
        assert_eq!(
            all.into_text(),
            "# HELP a_b Said \"so\",\\nand \\\\ so.\n# TYPE a_b gauge\na_b 1\na_b{machine=\"x\\\"} 1\\n\\\\\",code=\"\"} 0.5\n\
             # HELP c_total Nothing.\n# TYPE c_total counter\n"
        );
    }
}
