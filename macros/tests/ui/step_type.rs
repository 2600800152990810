//! A step takes the result of the part before it as its first parameter, so the types have to be the same.

use delayed::{chain, group};

mod tasks {
    #[delayed::task]
    pub fn count(page: String) -> u64 {
        page.len() as u64
    }

    #[delayed::task]
    pub fn shout(text: String) -> String {
        text
    }

    #[delayed::task]
    pub fn sum(counts: Vec<u64>) -> u64 {
        counts.iter().sum()
    }
}

fn main() {
    let _ = chain(tasks::count::call("a".into())).then(tasks::shout::step());
    let _ = group([tasks::shout::call("a".into())]).then(tasks::sum::step());
}
