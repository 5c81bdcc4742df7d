//! What can go wrong with the store, and what each answer of it means for the call.

use std::sync::Arc;

use thiserror::Error;

use crate::Outcomes;

/// A decision that the store did not make. The limits' `on_store_failure` decides instead.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no connection; the next attempt is under way. Nothing was sent.
    #[error("not connected to the store: {why}")]
    Disconnected {
        /// Why the last attempt or connection ended.
        why: Arc<str>,
    },
    /// The deadline passed first.
    #[error("the store did not answer in time")]
    Timeout {
        /// True if the call had left.
        was_sent: bool,
    },
    /// The store has not answered in time for a while, so nobody waits for it. Nothing was sent.
    #[error("the store has not answered in time for a while; it is probed")]
    Silent,
    /// The connection ended between the call and its answer.
    #[error("the connection to the store ended before its answer came: {why}")]
    Lost {
        /// Why it ended.
        why: Arc<str>,
    },
    /// More requests wait for the store than may. Nothing was sent.
    #[error("{most} requests wait for the store already")]
    QueueFull {
        /// The most that may wait.
        most: usize,
    },
    /// The store answered with an error.
    #[error("the store refused the call: {answer}")]
    Refused {
        /// What kind of error.
        class: ErrorClass,
        /// Its words.
        answer: Arc<str>,
    },
    /// A key of this request holds something that is no counter. Nothing was written.
    #[error("a counter's key holds a value that is not a counter; delete that key")]
    ForeignValue,
    /// Some slots of a Cluster have answered, and others not.
    #[error("a part of the store did not answer: {why}")]
    Partial {
        /// What each operation came to, in the order of [`tidegate_core::Plan::asked`]; those of
        /// the others are unasked.
        outcomes: Box<Outcomes>,
        /// Why one of the others has not.
        why: Box<StoreError>,
    },
    /// The answer does not fit the call.
    #[error("the store's answer does not have the expected form")]
    Protocol,
}

impl StoreError {
    /// False if it is certain that nothing was charged or given back.
    pub fn may_have_written(&self) -> bool {
        match self {
            Self::Disconnected { .. }
            | Self::Silent
            | Self::QueueFull { .. }
            | Self::ForeignValue => false,
            Self::Timeout { was_sent } => *was_sent,
            Self::Refused { class, .. } => !class.proves_not_run(),
            Self::Lost { .. } | Self::Partial { .. } | Self::Protocol => true,
        }
    }

    /// The same of a counter that was only looked at, which has heard of no charge.
    pub(super) fn before_a_charge(&self) -> Self {
        match self {
            // It takes no charge later either.
            Self::ForeignValue => Self::ForeignValue,
            _ => Self::Silent,
        }
    }

    /// What went wrong, without what limits said all the same.
    #[must_use]
    pub fn cause(self) -> Self {
        match self {
            Self::Partial { why, .. } => why.cause(),
            other => other,
        }
    }

    /// One word for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Partial { why, .. } => why.label(),
            Self::Disconnected { .. } => "disconnected",
            Self::Timeout { .. } => "timeout",
            Self::Silent => "breaker_open",
            Self::Lost { .. } => "lost",
            Self::QueueFull { .. } => "queue_full",
            Self::Refused { .. } => "refused",
            Self::ForeignValue => "foreign_value",
            Self::Protocol => "protocol",
        }
    }

    /// What it was, for metrics: the label, or the class of what the server answered.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Partial { why, .. } => why.class(),
            Self::Refused { class, .. } => class.as_str(),
            other => other.label(),
        }
    }

    /// What follows for the call and the connection.
    pub(super) fn remedy(&self) -> Remedy {
        match self {
            Self::Refused { class, .. } => class.remedy(),
            Self::Protocol => Remedy::Reconnect,
            _ => Remedy::Fail,
        }
    }

    pub(super) fn refused(answer: &[u8]) -> Self {
        let class = ErrorClass::of(answer);
        Self::Refused { class, answer: String::from_utf8_lossy(answer).into() }
    }
}

/// The kinds of error that a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The server does not know the script: restarted, flushed, or another one.
    NoScript,
    /// A replica, or a master that was demoted.
    ReadOnly,
    /// Reads its data set after a start.
    Loading,
    /// Runs somebody's long script.
    Busy,
    /// A replica without its master.
    MasterDown,
    /// A Cluster that does not serve, or wants the call elsewhere.
    Cluster,
    /// At its memory limit, and nothing may be evicted.
    OutOfMemory,
    /// Cannot persist, so refuses writes.
    Misconfigured,
    /// Fewer replicas than it demands.
    NoReplicas,
    /// The user lacks a command or the keys.
    NotPermitted,
    /// No login, or a wrong one.
    NotAuthenticated,
    /// Anything else.
    Other,
}

/// What follows from an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Send the call once more, with the script.
    SendAgain,
    /// Fail the call, drop the connection and resolve the name anew.
    Reconnect,
    /// Fail the call.
    Fail,
}

/// Word, class, remedy, and whether the error proves that nothing was written.
const TABLE: [(&str, ErrorClass, Remedy, bool); 17] = [
    ("NOSCRIPT", ErrorClass::NoScript, Remedy::SendAgain, true),
    ("READONLY", ErrorClass::ReadOnly, Remedy::Reconnect, true),
    ("LOADING", ErrorClass::Loading, Remedy::Fail, true),
    ("BUSY", ErrorClass::Busy, Remedy::Fail, true),
    ("MASTERDOWN", ErrorClass::MasterDown, Remedy::Reconnect, true),
    ("CLUSTERDOWN", ErrorClass::Cluster, Remedy::Fail, true),
    ("MOVED", ErrorClass::Cluster, Remedy::Fail, true),
    ("ASK", ErrorClass::Cluster, Remedy::Fail, true),
    ("TRYAGAIN", ErrorClass::Cluster, Remedy::Fail, true),
    ("CROSSSLOT", ErrorClass::Cluster, Remedy::Fail, true),
    // The server checks these before a script's first write, and never after one.
    ("OOM", ErrorClass::OutOfMemory, Remedy::Fail, true),
    ("MISCONF", ErrorClass::Misconfigured, Remedy::Fail, true),
    ("NOREPLICAS", ErrorClass::NoReplicas, Remedy::Fail, true),
    // A script may have written before it met the one command that its user lacks.
    ("NOPERM", ErrorClass::NotPermitted, Remedy::Fail, false),
    ("NOAUTH", ErrorClass::NotAuthenticated, Remedy::Reconnect, true),
    ("WRONGPASS", ErrorClass::NotAuthenticated, Remedy::Reconnect, true),
    ("ERR", ErrorClass::Other, Remedy::Fail, false),
];

impl ErrorClass {
    /// The class of an error answer, by its first word. Servers before 7 wrap what a script's
    /// command answered: `ERR Error running script …: -OOM command not allowed …`.
    pub(super) fn of(answer: &[u8]) -> Self {
        let text = String::from_utf8_lossy(answer);
        let inner = if text.starts_with("ERR") && text.contains("script") {
            text.rsplit_once(": -").map(|(_, inner)| inner)
        } else {
            None
        };
        let word = inner.unwrap_or(&text).split([' ', ':']).next().unwrap_or_default();
        let row = TABLE.iter().find(|row| row.0 == word);
        match row.map_or(Self::Other, |row| row.1) {
            Self::Other if text.contains("can't run this command") => Self::NotPermitted,
            class => class,
        }
    }

    /// One word for metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            ErrorClass::NoScript => "no_script",
            ErrorClass::ReadOnly => "read_only",
            ErrorClass::Loading => "loading",
            ErrorClass::Busy => "busy",
            ErrorClass::MasterDown => "master_down",
            ErrorClass::Cluster => "cluster",
            ErrorClass::OutOfMemory => "out_of_memory",
            ErrorClass::Misconfigured => "misconfigured",
            ErrorClass::NoReplicas => "no_replicas",
            ErrorClass::NotPermitted => "not_permitted",
            ErrorClass::NotAuthenticated => "not_authenticated",
            ErrorClass::Other => "other",
        }
    }

    pub(super) fn remedy(self) -> Remedy {
        TABLE.iter().find(|row| row.1 == self).map_or(Remedy::Fail, |row| row.2)
    }

    /// True if a Cluster's slots may be served by others now.
    pub(super) const fn tells_of_a_change(self) -> bool {
        matches!(self, Self::Cluster | Self::ReadOnly | Self::MasterDown | Self::Loading)
    }

    /// True if this error says that the call wrote nothing.
    pub const fn proves_not_run(self) -> bool {
        let mut at = 0;
        while at < TABLE.len() {
            if TABLE[at].1 as u8 == self as u8 {
                return TABLE[at].3;
            }
            at += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_classed_by_its_first_word_wrapped_or_not() {
        let wrapped = b"ERR Error running script (call to f_1): @user_script:9: @user_script: 9: \
                        -READONLY You can't write against a read only replica.";
        for (answer, class) in [
            (&b"NOSCRIPT No matching script."[..], ErrorClass::NoScript),
            (b"OOM command not allowed when used memory > 'maxmemory'.", ErrorClass::OutOfMemory),
            (wrapped, ErrorClass::ReadOnly),
            (b"BUSY Redis is busy running a script.", ErrorClass::Busy),
            (b"BUSYGROUP no", ErrorClass::Other),
            (b"ERR unknown command 'EVALSHA'", ErrorClass::Other),
            (b"WRONGPASS invalid username-password pair", ErrorClass::NotAuthenticated),
            (b"", ErrorClass::Other),
        ] {
            assert_eq!(ErrorClass::of(answer), class, "{}", answer.escape_ascii());
        }
        assert_eq!(ErrorClass::ReadOnly.remedy(), Remedy::Reconnect);
        assert_eq!(ErrorClass::NoScript.remedy(), Remedy::SendAgain);
    }

    #[test]
    fn an_error_says_whether_the_write_may_have_happened() {
        assert!(StoreError::Lost { why: "x".into() }.may_have_written());
        assert!(StoreError::Timeout { was_sent: true }.may_have_written());
        assert!(!StoreError::Timeout { was_sent: false }.may_have_written());
        assert!(!StoreError::refused(b"LOADING x").may_have_written());
        assert!(StoreError::refused(b"ERR x").may_have_written());
    }
}
