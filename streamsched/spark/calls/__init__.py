"""The processes that call a program's Python code: functions, kinds of tasks, and PySpark modules. They import little,
so that a task of a second is not mostly start.
"""
