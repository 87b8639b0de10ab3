"""Statements written for this project in the style of each source, with what is right for them.

A rule that drops has to be right on nine of ten of them; those that it must leave alone are what
such rules took for defects on published rows.
"""

BODY = (
    "You are given n integers. In one move you add one to a number of your choice. Find the least "
    "number of moves after which all of them are equal, and print it."
)
INPUT = (
    "-----Input-----\n\nThe first line contains an integer t, the number of test cases.\n\n"
    "-----Output-----\n\nFor each test case print one integer."
)
ROWS = "\n".join("YES" if n % 3 else "NO" for n in range(60))

# (rule, whether it is right to act on it, statement)
STATEMENTS = (
    ("other_language", False, f"{BODY} Do not read or write 64-bit integers in C++ with %lld."),
    ("other_language", False, f"{BODY} If you write in Java, mind that input can be large."),
    ("other_language", False, f"{BODY} Complete the function below in Java or Python."),
    ("other_language", True, f"Implement the class below in C++ and test it. {BODY}"),
    ("other_language", True, f"Write a program in Haskell. {BODY}"),
    ("other_language", True, f"Write a complete program in Java that solves this. {BODY}"),
    ("repetitive", False, f"{BODY}\n\n{INPUT}\n\n-----Sample-----\n\n{ROWS}"),
    ("repetitive", False, "Print print or input. " + BODY),
    ("repetitive", True, "Read the number and print the number. " * 12),
    ("repetitive", True, "value value input " * 30),
    ("interactive", True, f"This is an interactive problem. {BODY}"),
    ("interactive", True, f"{BODY} After each line flush the output."),
    ("interactive", False, f"{BODY} The museum has an interactive map."),
    ("database", True, f"Table: Orders\n+----+\n| id |\n\nWrite an SQL query. {BODY}"),
    ("database", False, f"Each record of the SQL course has a mark. {BODY}"),
    ("shell", True, f"Write a bash script for it. {BODY}"),
    ("shell", False, f"Polycarp found a shell on the beach. {BODY}"),
    ("damaged", True, BODY.replace("e", "\ufffd")),
    ("damaged", False, f"{BODY} For example: ♠ ♥ ♦ ♣ are the suits."),
    ("image", False, f"[image]\n\n{BODY}\n\n{INPUT}"),
    ("length", False, "Write a python function to count the vowels of a text."),
    ("length", True, "Add them."),
    ("special_judge", True, f"{BODY} If there are multiple answers, print any of them."),
    ("special_judge", True, f"{BODY} You may print the numbers in any order."),
    ("special_judge", True, f"{BODY} If there are several such rows, printing any one will do."),
    ("special_judge", True, f"{BODY} Find any row of letters that fits, or report that none does."),
    ("special_judge", False, f"{BODY} The numbers come without any order."),
    (
        "special_judge",
        False,
        f"{BODY} In a turn, choose any two neighbours and swap them.",
    ),
    ("special_judge", False, f"{BODY} You may perform these moves in any order."),
    ("special_judge", True, f"{BODY} You may list the pairs in any order."),
    ("special_judge", True, f"{BODY} The pairs may be given in any order."),
    ("special_judge", True, f"{BODY} Find any path."),
    ("special_judge", True, f"{BODY} If there are several, choose any of them and print it."),
    ("special_judge", False, f"{BODY} Do not print any extra spaces."),
    ("special_judge", False, f"{BODY} The function should not return any value."),
    ("special_judge", False, f"{BODY} In one move choose any of them and delete it."),
    ("special_judge", False, f"The pairs may be given in any order.\n\n{INPUT}"),
    ("special_judge", False, f"{BODY} Your friends help if you find any treasure."),
)

# (what it is, before, after): text that no conversion may touch, or has to
CONVERSIONS = (
    ("HTML as the subject", "Count the tags <b> and </b> in the HTML text.", None),
    ("an entity as the subject", "Replace every `&quot;` entity by a quotation mark.", None),
    ("a template", "Store it in a vector<int> a, where a<b and c>d.", None),
    ("indentation in a fence", "Run:\n\n```\nif a <b:\n    <p>x</p>  &lt;\n```\n\nend", None),
    ("prices", "Apples cost $5, pears $6 and plums $7 each.", None),
    ("a power in plain text", "At most 10<sup>5</sup> numbers.", "At most 10^5 numbers."),
    ("a comparison in plain text", "1 &le; n &lt; 10", "1 ≤ n < 10"),
    ("a document", "<p>Add <i>a</i> and b.</p><p>Print it.</p>", "Add a and b.\n\nPrint it."),
    ("a line in dollars", "$1 ≤ N ≤ 10^{5} $", "1 ≤ N ≤ 10^5"),
    ("two formulas", "For $ n $ and $x, y$ it holds.", "For n and x, y it holds."),
    ("a macro outside", r"so that a \leq b", "so that a ≤ b"),
    ("a note that ends in a list", f"{BODY}\n\nNote\n\nThe moves:\n\n- the first, by one;", None),
    (
        "a note that ended in an image",
        f"{BODY}\n\nNote\n\nFor the second example,\n<image>",
        f"{BODY}\n\nNote\n\nFor the second example,",
    ),
    ("a macro nobody knows", r"the set $\Foo$ of all", "the set Foo of all"),
)

PACKAGE = r"""\problemname{Equal Heaps}
% a comment
\newcommand{\maxn}{10^5}
Given $n \le \maxn$ heaps, make them equal \emph{fast}; see \href{http://a.b}{the map}.
\begin{figure}\includegraphics[width=3cm]{heaps.png}\caption{Two heaps.}\end{figure}

\section*{Input}
\begin{itemize}
  \item one line with $n$
\end{itemize}
\begin{tabular}{|l|r|}
\hline
Group & Points \\ \hline
1 & 20 \\
\end{tabular}
"""
PACKAGE_TEXT = """# Equal Heaps

Given n ≤ 10^5 heaps, make them equal fast; see the map.

[image]
(Two heaps.)

## Input

- one line with n

Group  |  Points
1  |  20
"""
