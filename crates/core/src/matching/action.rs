//! What a caller wants done, and what that does to a counter.

/// What a request does to a counter, in units of cost, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Takes if it fits.
    Charge(u64),
    /// Asks whether it would fit, and takes nothing.
    Peek(u64),
    /// Gives back.
    Refund(u64),
}

impl Action {
    /// The units.
    #[inline]
    pub const fn cost(self) -> u64 {
        match self {
            Self::Charge(cost) | Self::Peek(cost) | Self::Refund(cost) => cost,
        }
    }
}

/// What the caller wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Charge; a cost of 0 only looks.
    Hit,
    /// Look; a cost of 0 looks for 1.
    Peek,
    /// Give back; a cost of 0 does nothing but look.
    Refund,
}

impl Verb {
    /// What it does to a counter at that cost.
    #[inline]
    pub const fn action(self, cost: u64) -> Action {
        match (self, cost) {
            (_, 0) => Action::Peek(1),
            (Self::Hit, cost) => Action::Charge(cost),
            (Self::Peek, cost) => Action::Peek(cost),
            (Self::Refund, cost) => Action::Refund(cost),
        }
    }
}

/// What is done to a counter that a request meets twice: the largest cost wins; a charge and a
/// refund do not go together.
pub(super) fn merge(a: Action, b: Action) -> Option<Action> {
    let most = a.cost().max(b.cost());
    Some(match (a, b) {
        (Action::Charge(_), Action::Refund(_)) | (Action::Refund(_), Action::Charge(_)) => {
            return None;
        }
        (Action::Peek(_), Action::Peek(_)) => Action::Peek(most),
        (Action::Charge(cost), Action::Peek(_)) | (Action::Peek(_), Action::Charge(cost)) => {
            Action::Charge(cost)
        }
        (Action::Refund(cost), Action::Peek(_)) | (Action::Peek(_), Action::Refund(cost)) => {
            Action::Refund(cost)
        }
        (Action::Charge(_), Action::Charge(_)) => Action::Charge(most),
        (Action::Refund(_), Action::Refund(_)) => Action::Refund(most),
    })
}
