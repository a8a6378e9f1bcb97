//! What a person types as an answer: a number, a label, or own words. Pure; whether it fits is the gateway's to say, but what the person can
//! still mend is told at once.

use serde_json::Value;

use crate::gateway::{ApprovalView, QuestionView};

/// The answer to a question; none where it is left out.
pub(super) fn to_question(question: &QuestionView, typed: &str) -> Result<Option<Value>, String> {
    let typed = typed.trim();
    if typed.is_empty() {
        return if question.required == Some(false) {
            Ok(None)
        } else {
            Err("it must be answered".to_owned())
        };
    }
    if let Some(label) = label(question, typed) {
        return Ok(Some(Value::from(label)));
    }
    if question.multi_select != Some(false) {
        let several: Option<Vec<&str>> = typed.split(',').map(|part| label(question, part.trim())).collect();
        if let Some(labels) = several {
            return Ok(Some(Value::from(labels)));
        }
    }
    if question.options.is_empty() {
        return Ok(Some(Value::from(typed)));
    }
    let most = question.options.len();
    if question.free_text == Some(false) {
        return Err(format!("it takes only its options: 1 to {most}"));
    }
    // A slip of the finger, most likely: an answer of one's own that is a number is asked for as such.
    if let Some(number) = quoted_number(typed) {
        return Ok(Some(Value::from(number)));
    }
    let parts = || typed.split(',').map(str::trim);
    if parts().all(|part| is_number(part) && label(question, part).is_some()) {
        return Err("it takes one of its options".to_owned());
    }
    if let Some(wrong) = parts()
        .all(is_number)
        .then(|| parts().find(|part| label(question, part).is_none()))
    {
        let wrong = wrong.unwrap_or(typed);
        return Err(format!(
            "{wrong} is none of its options, 1 to {most}; to answer with the number itself, type \"{typed}\" in quotes"
        ));
    }
    Ok(Some(Value::from(typed)))
}

/// What is typed like the number of an option, be there one or not.
fn is_number(typed: &str) -> bool {
    let digits = typed.strip_prefix(['-', '+']).unwrap_or(typed);
    let digits = digits.strip_suffix('.').unwrap_or(digits);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// A number, or several, in quotes: no option is meant.
fn quoted_number(typed: &str) -> Option<&str> {
    let inner = typed.strip_prefix('"')?.strip_suffix('"')?.trim();
    inner.split(',').map(str::trim).all(is_number).then_some(inner)
}

/// The decision about an approval.
pub(super) fn to_approval(approval: &ApprovalView, typed: &str) -> Result<String, String> {
    let typed = typed.trim();
    let chosen = approval
        .decisions
        .iter()
        .find(|decision| decision.as_str() == typed)
        .or_else(|| nth(&approval.decisions, typed));
    chosen
        .cloned()
        .ok_or_else(|| format!("it must be one of 1 to {}", approval.decisions.len()))
}

/// The label of the option that is meant: its own text goes before its number.
fn label<'a>(question: &'a QuestionView, typed: &str) -> Option<&'a str> {
    let by_text = question.options.iter().find(|option| option.label == typed);
    let option = by_text.or_else(|| nth(&question.options, typed))?;
    Some(&option.label)
}

fn nth<'a, T>(all: &'a [T], typed: &str) -> Option<&'a T> {
    let number: usize = typed.parse().ok()?;
    all.get(number.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::gateway::OptionView;

    fn question(labels: &[&str]) -> QuestionView {
        let option = |label: &&str| OptionView {
            label: (*label).to_owned(),
            description: String::new(),
        };
        QuestionView {
            options: labels.iter().map(option).collect(),
            ..QuestionView::default()
        }
    }

    #[test]
    fn a_number_is_an_option_and_other_words_are_ones_own() {
        let colors = question(&["Red", "Blue", "2"]);
        assert_eq!(to_question(&colors, " 1 "), Ok(Some(json!("Red"))));
        assert_eq!(
            to_question(&colors, "2"),
            Ok(Some(json!("2"))),
            "a label goes before a number"
        );
        assert_eq!(to_question(&colors, "Blue"), Ok(Some(json!("Blue"))));
        assert_eq!(to_question(&colors, "Green, or so"), Ok(Some(json!("Green, or so"))));
        assert_eq!(to_question(&colors, "1, Blue"), Ok(Some(json!(["Red", "Blue"]))));
    }

    #[test]
    fn a_number_that_is_no_option_is_asked_again_unless_it_stands_in_quotes() {
        let colors = question(&["Red", "Blue"]);
        for wrong in ["9", "0", "-1", "3.", "1,9", "99999999999999999999999"] {
            let told = to_question(&colors, wrong).unwrap_err();
            assert!(told.contains("1 to 2") && told.contains("in quotes"), "{told}");
        }
        assert_eq!(to_question(&colors, "\"9\""), Ok(Some(json!("9"))));
        assert_eq!(to_question(&colors, "\"1\""), Ok(Some(json!("1"))));
        assert_eq!(to_question(&colors, "\"Green\""), Ok(Some(json!("\"Green\""))));
        assert_eq!(to_question(&colors, "9 of them"), Ok(Some(json!("9 of them"))));
        let one = QuestionView {
            multi_select: Some(false),
            ..question(&["Red", "Blue"])
        };
        assert!(to_question(&one, "1,2").is_err_and(|told| told.contains("one of its options")));
        let open = question(&[]);
        assert_eq!(
            to_question(&open, "9"),
            Ok(Some(json!("9"))),
            "there is nothing else that it could be"
        );
    }

    #[test]
    fn what_a_question_does_not_take_is_said_at_once() {
        let closed = QuestionView {
            free_text: Some(false),
            multi_select: Some(false),
            ..question(&["Red", "Blue"])
        };
        assert!(to_question(&closed, "Green").is_err());
        assert!(to_question(&closed, "1,2").is_err());
        assert!(to_question(&closed, "").is_err());
        let optional = QuestionView {
            required: Some(false),
            ..closed
        };
        assert_eq!(to_question(&optional, " "), Ok(None));
    }

    #[test]
    fn a_decision_is_one_that_is_offered() {
        let approval = ApprovalView {
            decisions: vec!["accept".to_owned(), "decline".to_owned()],
            ..ApprovalView::default()
        };
        assert_eq!(to_approval(&approval, "2").as_deref(), Ok("decline"));
        assert_eq!(to_approval(&approval, "accept").as_deref(), Ok("accept"));
        assert!(to_approval(&approval, "yes").is_err() && to_approval(&approval, "0").is_err());
    }
}
