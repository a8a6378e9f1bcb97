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
    if question.free_text == Some(false) && !question.options.is_empty() {
        return Err(format!("it takes only its options: 1 to {}", question.options.len()));
    }
    Ok(Some(Value::from(typed)))
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
        assert_eq!(to_question(&colors, "9"), Ok(Some(json!("9"))));
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
